"""`tenure workers`: who is alive and what they are doing."""

from typing import Any

import click

from tenure.backends.contract import Roster, WorkerRecord
from tenure.cli import printing
from tenure.cli.failures import CommandError
from tenure.cli.loading import any_app


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def workers(as_json: bool) -> None:
    """List the workers that are alive."""
    with any_app() as app:
        if not isinstance(app.backend, Roster):
            raise CommandError("this backend does not know its workers")
        found = [_facts(worker) for worker in app.backend.workers()]
    if as_json:
        printing.as_json(found)
    elif found:
        columns = ("id", "queues", "runner", "concurrency", "started_at", "seen_at", "running", "counts")
        rows = [[{**facts, "running": len(facts["jobs"])}[column] for column in columns] for facts in found]
        printing.table(columns, rows)
    else:
        click.echo("no worker is alive")


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
    }
