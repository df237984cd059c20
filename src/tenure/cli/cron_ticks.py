"""`tenure cron history`, `pause` and `resume`: what the ledger knows of schedules."""

import logging
from typing import Any
from urllib.parse import urlsplit

import click

from tenure.app import Tenure
from tenure.backends.ledger import TICK_STATES, Ledger, TickRecord, TickState
from tenure.backends.sql.sqlite.opening import file_of
from tenure.cli import printing
from tenure.cli.failures import CommandError
from tenure.cli.loading import any_app, app_with_handlers
from tenure.errors import BackendError, TenureError

logger = logging.getLogger(__name__)


def ledger_to_look_at(app: Tenure) -> Ledger | None:
    """The ledger, if there is one by now: looking creates no database, and works without a server."""
    parts = urlsplit(app.settings.url)
    if parts.scheme == "sqlite" and not file_of(parts).exists():
        return None
    try:
        return app.cron.ledger
    except TenureError as error:
        logger.warning("what has happened is not shown: %s", error)
        return None


@click.command()
@click.argument("name")
@click.option("--status", type=click.Choice(TICK_STATES), multiple=True, help="Only ticks in this state; repeatable.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many ticks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--extended", is_flag=True, help="Show the job of each tick too: its attempts, output and error.")
def history(name: str, status: tuple[TickState, ...], limit: int, as_json: bool, extended: bool) -> None:
    """Show what became of the last ticks of a schedule, the newest first."""
    with any_app() as app:
        found = [_tick(each) for each in app.cron.history(name, states=status, limit=limit)]
        if extended:
            found = [each | _job(app, each["job"]) for each in found]
    columns = [*_COLUMNS, *(_EXTENDED if extended else ())]
    if as_json:
        printing.as_json(found)
    elif found:
        printing.table(columns, [[each[column] for column in columns] for each in found])
    else:
        click.echo(f"no ticks of {name!r} are known")


@click.command()
@click.argument("name", required=False)
def pause(name: str | None) -> None:
    """Have the ticks of a schedule skipped, or those of all, until they are resumed."""
    with app_with_handlers() as app:
        app.cron.pause(name)
    click.echo("all schedules are paused" if name is None else f"{name!r} is paused")


@click.command()
@click.argument("name", required=False)
def resume(name: str | None) -> None:
    """Resume a schedule that was paused; without a name, all that were paused at once."""
    with any_app() as app:
        known = app.cron.ledger.paused()
        if (name or "") not in known:
            what = "all schedules at once are" if name is None else f"{name!r} is"
            held = f"; paused are: {', '.join(map(repr, filter(None, known)))}" if any(known) else ""
            raise CommandError(f"{what} not paused{held}")
        app.cron.resume(name)
    click.echo("schedules are resumed" if name is None else f"{name!r} is resumed")


_COLUMNS = ("tick", "state", "entered", "ended", "job", "why")
_EXTENDED = ("job_state", "attempts", "seconds", "output", "error")


def _tick(each: TickRecord) -> dict[str, Any]:
    ended = each.noted_at if each.state in ("succeeded", "failed", "skipped") else None
    return {
        "schedule": each.schedule,
        "tick": printing.moment(each.tick),
        "due": printing.moment(each.due),
        "state": each.state,
        "entered": printing.moment(each.entered_at),
        "ended": printing.moment(ended),
        "job": each.id,
        "why": each.why,
    }


def _job(app: Tenure, id: str) -> dict[str, Any]:
    try:
        record = app.shelves().finder.find(id)
    except BackendError:  # nobody keeps records
        record = None
    if record is None:
        return dict.fromkeys(_EXTENDED)
    last = record.failures[-1] if record.failures else None
    return {
        "job_state": record.state,
        "attempts": record.attempts,
        "seconds": record.seconds,
        "output": record.output,
        "error": f"{last.type}: {last.message}" if last else None,
    }
