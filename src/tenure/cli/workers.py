"""`tenure workers`: who is alive and what they are doing."""

from typing import Any

import click
import msgspec

from tenure.backends.upkeep import WorkerRecord
from tenure.cli import printing
from tenure.cli.loading import any_app


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def workers(as_json: bool) -> None:
    """List the workers that are alive."""
    with any_app() as app:
        found = app.shelves().roster.workers()
    if as_json:
        printing.as_json([_facts(worker) for worker in found])
    elif found:
        printing.table(("id", "lanes", "started_at", "seen_at", "running", "counts"), [_row(each) for each in found])
    else:
        click.echo("no worker is alive")


def _row(worker: WorkerRecord) -> list[Any]:
    lanes = "; ".join(map(printing.lane, worker.lanes))
    times = (printing.moment(worker.started_at), printing.moment(worker.seen_at))
    return [worker.id, lanes, *times, len(worker.jobs), worker.counts]


def _facts(worker: WorkerRecord) -> dict[str, Any]:
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "runner": worker.runner,
        "concurrency": worker.concurrency,
        "started_at": printing.moment(worker.started_at),
        "seen_at": printing.moment(worker.seen_at),
        "jobs": list(worker.jobs),
        "counts": worker.counts,
        "handlers": list(worker.handlers),
        "kids": list(worker.kids),
        "lanes": [msgspec.to_builtins(lane) for lane in worker.lanes],
    }
