"""`tenure guards`: list, show and reset locks, slots, rates, breakers, idempotency keys, pauses and drains."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from tenure.app import Tenure
from tenure.app.guards import GuardRecord
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.audit import audited, why_option
from tenure.cli.errors import CommandError
from tenure.cli.tables import Column, print_rows

_COLUMNS = ("key", "state", Column("jobs", rank=2, show=lambda ids: ", ".join(map(output.short_id, ids))), "waiting")
_KINDS = {
    "lock": "locks of single-instance jobs",
    "most": "slots of at_most",
    "rate": "rates",
    "breaker": "circuit breakers",
    "once": "idempotency keys",
    "pause": "paused queues",
    "drain": "draining workers",
    "backend": "breakers around backends",
}
_WAITERS = 20
_PAGE = 500


@click.group()
def guards() -> None:
    """List, show and reset guards: locks, slots, rates, breakers and idempotency keys."""


@guards.command("list")
@click.option(
    "--kind", type=click.Choice(list(_KINDS)), help=f"Only one kind: {', '.join(map(' is for '.join, _KINDS.items()))}."
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="How many at most."
)
@output.json_option
def list_(kind: str | None, limit: int, as_json: bool) -> None:
    """List the guards that have a state or waiting jobs, by key."""
    with any_app() as app:
        found = app.guards.search(f"{kind}:" if kind else "", limit + 1)
    rows = [_fields(guard) for guard in found[:limit]]
    if as_json:
        output.print_json(rows)
    elif rows:
        print_rows(_COLUMNS, rows)
    else:
        click.echo("no guard has a state or waiting jobs")
    if len(found) > limit:
        click.echo(f"there are more than {limit}; --limit shows more", err=True)


@guards.command()
@click.argument("key")
@output.json_option
def show(key: str, as_json: bool) -> None:
    """Explain one guard: its state, the jobs that hold it, and the first jobs that wait for it."""
    with any_app() as app:
        guard = _find(app, key)
        waiters = list(islice(_waiters(app, key), _WAITERS)) if guard.waiting else []
    if as_json:
        output.print_json({**_fields(guard), "waiters": waiters})
        return
    click.echo(f"{output.format_value(key)}: {guard.text()}")
    for id in guard.jobs:
        click.echo(f"held by {output.format_value(id)}" if guard.kind != "once" else f"by {output.format_value(id)}")
    for id in waiters:
        click.echo(f"{output.format_value(id)} waits for it")


@guards.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@why_option
@output.json_option
def reset(keys: tuple[str, ...], why: str | None, as_json: bool) -> None:
    """Forget the state of these guards, and wake the jobs that can start then.

    A lock becomes free, a rate full, a breaker closed, a paused queue resumed, and a job with an idempotency key can
    run again. A lock becomes free also while a job holds it, so that another job may run beside it.
    """
    with any_app() as app, audited(app, "guard.reset", keys, why) as counts:
        done = {key: app.guards.reset(key) for key in keys}
        counts["reset"] = sum(done.values())
    if as_json:
        output.print_json(done)
    else:
        for key, was_known in done.items():
            click.echo(f"{output.format_value(key)} {'is reset' if was_known else 'had no state'}")


def _find(app: Tenure, key: str) -> GuardRecord:
    found = [guard for guard in app.guards.search(key, 1) if guard.key == key]
    if not found:
        raise CommandError(f"no guard {key!r} has a state or waiting jobs; tenure guards list shows those that have")
    return found[0]


def _waiters(app: Tenure, key: str) -> Iterator[str]:
    """The parked jobs that wait for this guard; it reads the parked jobs page by page."""
    jobs = app.backend.jobs
    for queue in [] if jobs is None else jobs.queues_with("parked"):
        cursor: str | None = None
        while jobs is not None:
            page, cursor = jobs.page("parked", queue, limit=_PAGE, cursor=cursor)
            found = (jobs.find(record.id) for record in page)
            yield from (record.id for record in found if record is not None and record.waits_for == key)
            if cursor is None:
                break


def _fields(guard: GuardRecord) -> dict[str, Any]:
    return {
        "key": guard.key,
        "kind": guard.kind,
        "state": guard.text(),
        "jobs": list(guard.jobs),
        "waiting": guard.waiting,
    }
