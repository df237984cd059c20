"""`tenure queues`: the jobs and workers of each queue; pause, resume and drain."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import click

from tenure.app import Tenure
from tenure.backends.contract import required
from tenure.backends.parts import QueueCounts
from tenure.backends.records import WorkerRecord
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.arguments import parse_seconds
from tenure.cli.errors import CommandError
from tenure.cli.output import LiveLine
from tenure.cli.queue_names import find_queue
from tenure.cli.tables import Column, print_rows
from tenure.errors import SettingsError
from tenure.guards.states import Paused

EXIT_NOT_EMPTY = 1
_POLL_SECONDS = 0.2
_COLUMNS: Sequence[str | Column] = (
    *("queue", "ready", "delayed", "parked", "leased", "dead", "workers"),
    Column("paused_since", "paused", rank=1),
    Column("reason", rank=2),
)
_WAITING_STATES = ("ready", "delayed", "parked", "leased")
_HANDLER_COLUMNS: Sequence[str | Column] = ("queue", "handler", *_WAITING_STATES)
_PAGE = 1000
_queues_argument = click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)


class QueueNotEmpty(CommandError):
    exit_code = EXIT_NOT_EMPTY


@click.group()
def queues() -> None:
    """List, pause, resume and drain queues."""


@queues.command("list")
@click.option("--handlers", is_flag=True, help="Count the waiting and running jobs of each handler; reads all of them.")
@output.json_option
def list_(handlers: bool, as_json: bool) -> None:
    """List queues: their jobs per state, how many workers serve them, and which are paused."""
    with any_app() as app:
        names = known_queues(app)
        found, columns = (_handler_rows(app, names), _HANDLER_COLUMNS) if handlers else (_rows(app, names), _COLUMNS)
    if as_json:
        output.print_json(found)
    else:
        print_rows(columns, found)


@queues.command()
@_queues_argument
@click.option("--reason", metavar="TEXT", help="The reason that `queues list` shows.")
@output.json_option
def pause(queues: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Stop workers from leasing jobs of these queues until they are resumed. Running jobs continue."""
    with any_app() as app:
        names = [find_queue(app, queue) for queue in queues]
        changed = {queue: app.guards.pause(queue, reason) for queue in names}
    _print_changes(changed, as_json, "paused", "was paused before")


@queues.command()
@_queues_argument
@output.json_option
def resume(queues: tuple[str, ...], as_json: bool) -> None:
    """Let workers lease jobs of these queues again."""
    with any_app() as app:
        changed = {queue: app.guards.resume(queue) for queue in [find_queue(app, each) for each in queues]}
    _print_changes(changed, as_json, "resumed", "was not paused")


@queues.command()
@_queues_argument
@click.option("--timeout", metavar="TIME", help="Give up after this time, with exit code 1.")
def drain(queues: tuple[str, ...], timeout: str | None) -> None:
    """Wait until no job of these queues is ready, parked or running. Of a paused queue, only until none runs."""
    with any_app() as app, LiveLine(sys.stderr) as line:
        if app.backend.queues is None:
            raise CommandError("this backend does not count jobs, so it does not know when a queue is empty")
        limit = parse_seconds(timeout, "--timeout") if timeout else float("inf")
        deadline = time.monotonic() + limit
        names = [find_queue(app, queue) for queue in queues]
        while left := _count_left(app, app.backend.queues, names):
            line.show(f"{left} jobs left")
            if time.monotonic() >= deadline:
                raise QueueNotEmpty(f"{left} jobs are left after {limit:g} s; check that a worker serves the queue")
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
    click.echo(f"{', '.join(map(output.format_value, names))}: nothing left")


def known_queues(app: Tenure) -> list[str]:
    """Every queue that has jobs or a worker, or that the settings name."""
    counts = app.backend.queues
    counted = [] if counts is None else list(counts.counts(ended=False))
    served = [queue for each in _workers(app) for queue in each.queues]
    lanes = [queue for lane in app.settings.lanes.values() for queue in lane.queues]
    return sorted(dict.fromkeys([*counted, *served, *map(app.queues.resolve, [*app.settings.queues, *lanes])]))


def _handler_rows(app: Tenure, names: Sequence[str]) -> list[dict[str, Any]]:
    """Each queue and handler with its waiting and running jobs; it reads every one of them, page by page."""
    reader = required(app.backend.jobs, "lists of waiting jobs")
    counts: dict[tuple[str, str], Counter[str]] = {}
    for queue, state in product(names, _WAITING_STATES):
        cursor: str | None = None
        while True:
            page, cursor = reader.page(state, queue, limit=_PAGE, cursor=cursor)
            for record in page:
                counts.setdefault((queue, record.handler), Counter())[state] += 1
            if cursor is None:
                break
    return [
        {"queue": queue, "handler": handler, **{state: found[state] for state in _WAITING_STATES}}
        for (queue, handler), found in sorted(counts.items())
    ]


def _rows(app: Tenure, names: Sequence[str]) -> list[dict[str, Any]]:
    counts = {} if app.backend.queues is None else app.backend.queues.counts(ended=False)
    workers = _workers(app)
    paused = _paused(app, names)
    return [
        {
            "queue": name,
            **{state: counts.get(name, {}).get(state, 0) for state in ("ready", "delayed", "parked", "leased", "dead")},
            "workers": sum(name in worker.queues for worker in workers),
            "paused_since": output.as_datetime(paused[name].since) if name in paused else None,
            "reason": paused[name].reason if name in paused else None,
        }
        for name in names
    ]


def _workers(app: Tenure) -> list[WorkerRecord]:
    """The workers that are alive; empty if neither the backend nor a store records them."""
    workers = app.parts().workers
    return [] if workers is None else workers.alive()


def _paused(app: Tenure, names: Sequence[str]) -> dict[str, Paused]:
    """The queues that are paused; empty if neither the backend nor a store records pauses."""
    try:
        return app.guards.paused(*names)
    except SettingsError:
        return {}


def _count_left(app: Tenure, backend: QueueCounts, names: Sequence[str]) -> int:
    counts, paused = backend.counts(ended=False), _paused(app, names)
    states = {name: ("leased",) if name in paused else ("ready", "parked", "leased") for name in names}
    return sum(counts.get(name, {}).get(state, 0) for name in names for state in states[name])


def _print_changes(changed: dict[str, bool], as_json: bool, done: str, not_done: str) -> None:
    if as_json:
        output.print_json([{"queue": queue, done: did} for queue, did in changed.items()])
        return
    for queue, did in changed.items():
        click.echo(f"{output.format_value(queue)} {done if did else not_done}")
