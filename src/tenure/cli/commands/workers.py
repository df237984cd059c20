"""`tenure workers`: the workers that are alive and their jobs."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from tenure.backends.contract import required
from tenure.backends.records import WorkerRecord
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.job_lines import describe_counts
from tenure.cli.tables import Column, print_table
from tenure.events import Status


def _describe_counts(counts: Mapping[str, int]) -> str:
    return describe_counts(Counter({Status(status): count for status, count in counts.items()}))


_COLUMNS = (
    "id",
    "lanes",
    Column("started_at", "started", rank=2),
    Column("seen_at", "seen", rank=3),
    Column("running", rank=1),
    Column("counts", "jobs", show=_describe_counts),
)


@click.command()
@output.json_option
def workers(as_json: bool) -> None:
    """List the workers that are alive."""
    with any_app() as app:
        found = required(app.parts().workers, "registry of workers").alive()
    if as_json:
        output.print_json([_fields(worker) for worker in found])
    elif found:
        print_table(_COLUMNS, list(map(_row, found)))
    else:
        click.echo("no worker is alive")


def _row(worker: WorkerRecord) -> list[Any]:
    lanes = "; ".join(map(output.format_lane, worker.lanes))
    times = (output.as_datetime(worker.started_at), output.as_datetime(worker.seen_at))
    return [worker.id, lanes, *times, len(worker.jobs), worker.counts]


def _fields(worker: WorkerRecord) -> dict[str, Any]:
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "runner": worker.runner,
        "concurrency": worker.concurrency,
        "started_at": output.as_datetime(worker.started_at),
        "seen_at": output.as_datetime(worker.seen_at),
        "jobs": list(worker.jobs),
        "counts": worker.counts,
        "handlers": list(worker.handlers),
        "kids": list(worker.kids),
        "lanes": [msgspec.to_builtins(lane) for lane in worker.lanes],
    }
