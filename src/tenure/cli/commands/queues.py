"""`tenure queues`: the jobs and workers of each queue; pause, resume and drain."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import click

from tenure.app import Tenure
from tenure.app.dashboard.figures import QueueFigures
from tenure.app.dashboard.queues import PauseQueue, QueuesQuery, ResumeQueue
from tenure.backends.contract import required
from tenure.backends.parts import QueueCounts
from tenure.backends.records import WorkerRecord
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.arguments import parse_seconds
from tenure.cli.audit import audited, why_option
from tenure.cli.errors import CommandError
from tenure.cli.output import LiveLine
from tenure.cli.queue_names import find_queue
from tenure.cli.remote import RemoteDashboard, remote_dashboard
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
    columns = _HANDLER_COLUMNS if handlers else _COLUMNS
    if (remote := remote_dashboard()) is not None:
        remote.refuse(handlers, "--handlers")
        found = list(map(_remote_row, _remote_queues(remote)))
    else:
        with any_app() as app:
            names = known_queues(app)
            found = _handler_rows(app, names) if handlers else _rows(app, names)
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
    if (remote := remote_dashboard()) is not None:
        changed = {
            queue: bool(remote.act(PauseQueue(queue=queue, reason=reason), reason).counts["paused"]) for queue in queues
        }
        _print_changes(changed, as_json, "paused", "was paused before")
        return
    with any_app() as app:
        names = [find_queue(app, queue) for queue in queues]
        with audited(app, "queue.pause", names, reason) as counts:
            changed = {queue: app.guards.pause(queue, reason) for queue in names}
            counts["paused"] = sum(changed.values())
    _print_changes(changed, as_json, "paused", "was paused before")


@queues.command()
@_queues_argument
@why_option
@output.json_option
def resume(queues: tuple[str, ...], why: str | None, as_json: bool) -> None:
    """Let workers lease jobs of these queues again."""
    if (remote := remote_dashboard()) is not None:
        changed = {queue: bool(remote.act(ResumeQueue(queue=queue), why).counts["resumed"]) for queue in queues}
        _print_changes(changed, as_json, "resumed", "was not paused")
        return
    with any_app() as app:
        names = [find_queue(app, queue) for queue in queues]
        with audited(app, "queue.resume", names, why) as counts:
            changed = {queue: app.guards.resume(queue) for queue in names}
            counts["resumed"] = sum(changed.values())
    _print_changes(changed, as_json, "resumed", "was not paused")


@queues.command()
@_queues_argument
@click.option("--timeout", metavar="TIME", help="Give up after this time, with exit code 1.")
def drain(queues: tuple[str, ...], timeout: str | None) -> None:
    """Wait until no job of these queues is ready, parked or running. Of a paused queue, only until none runs."""
    limit = parse_seconds(timeout, "--timeout") if timeout else float("inf")
    with LiveLine(sys.stderr) as line:
        if (remote := remote_dashboard()) is not None:
            names = list(queues)
            _wait_until_empty(lambda: _count_remote(remote, names), limit, line)
        else:
            with any_app() as app:
                backend = app.backend.queues
                if backend is None:
                    raise CommandError("this backend does not count jobs, so it does not know when a queue is empty")
                names = [find_queue(app, queue) for queue in queues]
                _wait_until_empty(lambda: _count_left(app, backend, names), limit, line)
    click.echo(f"{', '.join(map(output.format_value, names))}: nothing left")


def _wait_until_empty(count: Callable[[], int], limit: float, line: LiveLine) -> None:
    deadline = time.monotonic() + limit
    while left := count():
        line.show(f"{left} jobs left")
        if time.monotonic() >= deadline:
            raise QueueNotEmpty(f"{left} jobs are left after {limit:g} s; check that a worker serves the queue")
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def _remote_queues(remote: RemoteDashboard) -> list[QueueFigures]:
    return [row.figures for row in remote.read(QueuesQuery()).queues]


def _remote_row(queue: QueueFigures) -> dict[str, Any]:
    return {
        "queue": queue.name,
        **{state: getattr(queue, state) for state in ("ready", "delayed", "parked", "leased", "dead")},
        "workers": queue.workers,
        "paused_since": queue.paused_since,
        "reason": queue.pause_reason,
    }


def _count_remote(remote: RemoteDashboard, names: Sequence[str]) -> int:
    found = [queue for queue in _remote_queues(remote) if queue.name in names]
    return sum(each.leased + (0 if each.paused_since else each.ready + each.parked) for each in found)


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
