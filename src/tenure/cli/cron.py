"""`tenure cron`: which schedules there are, when they are due and why; what keeps them is in modules of its own."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from tenure.backends.ledger import Ledger
from tenure.cli import printing
from tenure.cli.cron_keeping import run, work
from tenure.cli.cron_ticks import history, ledger_to_look_at, pause, resume
from tenure.cli.cron_times import at_time, moment_of, zoned
from tenure.cli.loading import app_with_handlers
from tenure.clock import to_datetime
from tenure.cron.decision import obstacle_of
from tenure.cron.explanation import describe, explain, never_together
from tenure.cron.plan import reason_to_skip
from tenure.cron.preview import Occasion, around_change, upcoming
from tenure.cron.schedule import Schedule
from tenure.definition.zones import find_zone

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def cron() -> None:
    """Look at schedules, and keep them."""


for command in (run, work, history, pause, resume):
    cron.add_command(command)


@cron.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List the schedules, those that are due next first."""
    with app_with_handlers() as app:
        now, here = app.clock.now(), app.settings.environment
        ledger = ledger_to_look_at(app)
        last, paused = (ledger.last_ticks(), ledger.paused()) if ledger else ({}, {})
        found = [_entry(schedule, now, here, last, paused) for schedule in app.schedules.all()]
    found.sort(key=lambda entry: (entry["next"] is None, entry["next"] or now, entry["name"]))
    if as_json:
        printing.as_json(found)
    elif found:
        columns = ("name", "job", "queue", "expression", "timezone", "last", "next", "note")
        printing.table(columns, [[_cell(entry, column) for column in columns] for entry in found])
    else:
        click.echo("no schedules are registered")


@cron.command()
@click.argument("name")
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many ticks.")
@click.option("--around-dst", is_flag=True, help="Show the ticks around the next change of the clock.")
@at_time
@as_json
def preview(name: str, count: int, around_dst: bool, at: str | None, as_json: bool) -> None:
    """Show the next ticks of a schedule, by the clock of its zone."""
    with app_with_handlers() as app:
        schedule, moment = app.schedules.get(name), moment_of(app, at)
        found = (around_change if around_dst else upcoming)(schedule, moment, count)
    if as_json:
        printing.as_json([_occasion(each) for each in found])
    elif found:
        rows = [[zoned(each.local), _utc(each.local), each.note] for each in found]
        printing.table((schedule.timezone, "UTC", "note"), rows)
    elif around_dst:
        click.echo(f"the clock of {schedule.timezone} does not change within two years")
    else:
        click.echo("no ticks are to come")


@cron.command("explain")
@click.argument("name")
@at_time
@as_json
def explain_(name: str, at: str | None, as_json: bool) -> None:
    """Tell what a schedule does, and why."""
    with app_with_handlers() as app:
        schedule, every, moment = app.schedules.get(name), app.schedules.all(), moment_of(app, at)
        facts: dict[str, Any] = {"name": name, "job": schedule.job.handler}
        facts |= explain(schedule, app.settings.environment)
        facts["warning"] = never_together(schedule, every, moment)
        ticks = [each.local for each in upcoming(schedule, moment, 3)]
        needed_by = [each.name for each in every if name in each.job.depends_on]
        ledger = ledger_to_look_at(app)
        facts["last ticks"] = _lately(ledger, schedule) if ledger else None
        facts["not now"] = obstacle_of(schedule, app.settings.environment, ledger.paused()) if ledger else None
    if as_json:
        found = {**facts, "needed by": needed_by, "next": [tick.astimezone(UTC) for tick in ticks]}
        printing.as_json({topic.replace(" ", "_"): value for topic, value in found.items()})
    else:
        facts |= {"needed by": ", ".join(needed_by) or None, "next": ", ".join(map(zoned, ticks)) or None}
        printing.facts(facts)


def _lately(ledger: Ledger, schedule: Schedule) -> str | None:
    """The newest ticks in a few words."""
    shown = [
        f"{zoned(to_datetime(each.tick).astimezone(find_zone(schedule.timezone)))} {each.state}"
        + (f" ({each.why})" if each.why else "")
        for each in ledger.history(schedule.name, limit=3)
    ]
    return ", ".join(shown) or None


def _entry(
    schedule: Schedule, now: int, environment: str, last: Mapping[str, int], paused: Collection[str]
) -> dict[str, Any]:
    why_not = obstacle_of(schedule, environment, paused)
    tick = None if reason_to_skip(schedule, environment) else schedule.after(now)
    return {
        "name": schedule.name,
        "job": schedule.job.handler,
        "queue": None if schedule.inline else schedule.job.queue,
        "expression": schedule.expression,
        "words": describe(schedule.expression),
        "timezone": schedule.timezone,
        "last": printing.moment(last.get(schedule.name)),
        "next": None if tick is None else to_datetime(tick),
        "depends_on": list(schedule.job.depends_on),
        "note": why_not,
    }


def _cell(entry: dict[str, Any], column: str) -> Any:
    if column in ("last", "next") and entry[column] is not None:
        return zoned(entry[column].astimezone(find_zone(entry["timezone"])))
    return entry[column]


def _occasion(each: Occasion) -> dict[str, Any]:
    kind = "change" if each.is_change else "tick"
    return {"kind": kind, "local": each.local.isoformat(), "utc": each.local.astimezone(UTC), "note": each.note}


def _utc(local: datetime) -> str:
    return f"{local.astimezone(UTC):%Y-%m-%d %H:%M}"
