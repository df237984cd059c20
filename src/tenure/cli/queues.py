"""`tenure queues`: what waits where, and queues that are left alone for a while."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from tenure.app import Tenure
from tenure.backends.asking import Counted
from tenure.backends.upkeep import WorkerRecord
from tenure.cli import printing
from tenure.cli.durations import as_given
from tenure.cli.failures import CommandError
from tenure.cli.live import LiveLine
from tenure.cli.loading import any_app
from tenure.definition.duration import to_seconds
from tenure.errors import BackendError, SettingsError
from tenure.guards.states import Paused

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_queues = click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
_COLUMNS = ("queue", "ready", "delayed", "parked", "leased", "dead", "workers", "paused_since", "reason")
_LOOK = 0.2
NOT_EMPTY = 1


@click.group()
def queues() -> None:
    """List queues, and pause, resume and drain them."""


@queues.command("list")
@_json
def list_(as_json: bool) -> None:
    """List queues: what waits and runs there, who serves them, and which are paused."""
    with any_app() as app:
        found = _described(app, known(app))
    if as_json:
        printing.as_json(found)
    else:
        printing.table(_COLUMNS, [[each[column] for column in _COLUMNS] for each in found])


@queues.command()
@_queues
@click.option("--reason", metavar="TEXT", help="Why; shown by `queues list`.")
@_json
def pause(queues: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Have no worker lease from queues, until they are resumed; jobs that run go on."""
    with any_app() as app:
        names = [app.queues.resolve(queue) for queue in queues]
        changed = {queue: app.guards.pause(queue, reason) for queue in names}
    _tell(changed, as_json, "paused", "was paused before")


@queues.command()
@_queues
@_json
def resume(queues: tuple[str, ...], as_json: bool) -> None:
    """Have workers lease from queues again."""
    with any_app() as app:
        changed = {queue: app.guards.resume(queue) for queue in map(app.queues.resolve, queues)}
    _tell(changed, as_json, "resumed", "was not paused")


@queues.command()
@_queues
@click.option("--timeout", metavar="TIME", help="Give up after this time, with exit code 1.")
def drain(queues: tuple[str, ...], timeout: str | None) -> None:
    """Wait until nothing of these queues is ready, parked or running; of paused ones, until nothing runs."""
    with any_app() as app, LiveLine(sys.stderr) as line:
        if not isinstance(app.backend, Counted):
            raise CommandError("this backend keeps no counts, so nobody knows when a queue is empty")
        limit = to_seconds(as_given(timeout), "--timeout") if timeout else float("inf")
        give_up = time.monotonic() + limit
        names = [app.queues.resolve(queue) for queue in queues]
        while left := _left(app, app.backend, names):
            line.show(f"{left} jobs left")
            if time.monotonic() >= give_up:
                raise _NotEmpty(f"{left} jobs are left after {limit:g} s; does a worker serve the queue?")
            time.sleep(min(_LOOK, max(0.0, give_up - time.monotonic())))
    click.echo(f"{', '.join(map(printing.text, names))}: nothing left")


class _NotEmpty(CommandError):
    exit_code = NOT_EMPTY


def known(app: Tenure) -> list[str]:
    """Every queue that has jobs, a worker, or a place in the settings."""
    backend = app.backend
    counted = list(backend.counts(ended=False)) if isinstance(backend, Counted) else []
    served = [queue for each in _workers(app) for queue in each.queues]
    lanes = [queue for lane in app.settings.lanes.values() for queue in lane.queues]
    return sorted(dict.fromkeys([*counted, *served, *map(app.queues.resolve, [*app.settings.queues, *lanes])]))


def _described(app: Tenure, names: Sequence[str]) -> list[dict[str, Any]]:
    backend = app.backend
    counts = backend.counts(ended=False) if isinstance(backend, Counted) else {}
    workers = _workers(app)
    paused = _paused(app, names)
    return [
        {
            "queue": name,
            **{state: counts.get(name, {}).get(state, 0) for state in ("ready", "delayed", "parked", "leased", "dead")},
            "workers": sum(name in worker.queues for worker in workers),
            "paused_since": printing.moment(paused[name].since) if name in paused else None,
            "reason": paused[name].reason if name in paused else None,
        }
        for name in names
    ]


def _workers(app: Tenure) -> list[WorkerRecord]:
    """None where nobody keeps a roster."""
    try:
        roster = app.shelves().roster
    except BackendError:
        return []
    return roster.workers()


def _paused(app: Tenure, names: Sequence[str]) -> dict[str, Paused]:
    """None where nothing keeps pauses."""
    try:
        return app.guards.paused(*names)
    except SettingsError:
        return {}


def _left(app: Tenure, backend: Counted, names: Sequence[str]) -> int:
    counts, paused = backend.counts(ended=False), _paused(app, names)
    states = {name: ("leased",) if name in paused else ("ready", "parked", "leased") for name in names}
    return sum(counts.get(name, {}).get(state, 0) for name in names for state in states[name])


def _tell(changed: dict[str, bool], as_json: bool, done: str, not_done: str) -> None:
    if as_json:
        printing.as_json([{"queue": queue, done: did} for queue, did in changed.items()])
        return
    for queue, did in changed.items():
        click.echo(f"{printing.text(queue)} {done if did else not_done}")
