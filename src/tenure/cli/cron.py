"""`tenure cron`: which schedules there are, when they are due, and what a tick would do."""

from datetime import UTC, datetime
from typing import Any

import click

from tenure.app import Tenure
from tenure.cli import printing
from tenure.cli.failures import CommandError
from tenure.cli.loading import app_with_handlers
from tenure.clock import to_datetime, to_microseconds
from tenure.cron.explanation import describe, explain, never_together
from tenure.cron.plan import Step, plan, reason_to_skip
from tenure.cron.preview import Occasion, around_change, upcoming
from tenure.cron.schedule import Schedule
from tenure.definition.zones import find_zone

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
at_time = click.option("--at", "at", metavar="TIME", help="As if it were this time, such as 2026-03-29T02:30.")


@click.group()
def cron() -> None:
    """Look at schedules, and at what they will do."""


@cron.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List the schedules, those that are due next first."""
    with app_with_handlers() as app:
        now, here = app.clock.now(), app.settings.environment
        found = [_entry(schedule, now, here) for schedule in app.schedules.all()]
    found.sort(key=lambda entry: (entry["next"] is None, entry["next"] or now, entry["name"]))
    if as_json:
        printing.as_json(found)
    elif found:
        columns = ("name", "job", "queue", "expression", "timezone", "next", "note")
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
        schedule, moment = app.schedules.get(name), _moment(app, at)
        found = (around_change if around_dst else upcoming)(schedule, moment, count)
    if as_json:
        printing.as_json([_occasion(each) for each in found])
    elif found:
        rows = [[_zoned(each.local), _utc(each.local), each.note] for each in found]
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
        schedule, every, moment = app.schedules.get(name), app.schedules.all(), _moment(app, at)
        facts: dict[str, Any] = {"name": name, "job": schedule.job.handler}
        facts |= explain(schedule, app.settings.environment)
        facts["warning"] = never_together(schedule, every, moment)
        ticks = [each.local for each in upcoming(schedule, moment, 3)]
        needed_by = [each.name for each in every if name in each.job.depends_on]
    if as_json:
        found = {**facts, "needed by": needed_by, "next": [tick.astimezone(UTC) for tick in ticks]}
        printing.as_json({topic.replace(" ", "_"): value for topic, value in found.items()})
    else:
        facts |= {"needed by": ", ".join(needed_by) or None, "next": ", ".join(map(_zoned, ticks)) or None}
        printing.facts(facts)


@cron.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this schedule, whenever it is due; repeatable.")
@at_time
@as_json
def run(dry_run: bool, only: tuple[str, ...], at: str | None, as_json: bool) -> None:
    """Tell what is due in this minute, in the order of dependencies."""
    if not dry_run:
        raise CommandError("this release cannot run schedules yet; --dry-run tells what would be done")
    with app_with_handlers() as app:
        steps = plan(app.schedules.all(), _moment(app, at), app.settings.environment, only)
    if as_json:
        printing.as_json([_step(step) for step in steps])
    elif steps:
        rows = [[step.schedule.name, step.action, _place(step), step.why] for step in steps]
        printing.table(("name", "would", "queue", "why"), rows)
    else:
        click.echo("nothing is due")


def _moment(app: Tenure, text: str | None) -> int:
    """A time of the command line, by the clock of the app unless it says otherwise."""
    if text is None:
        return app.clock.now()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text!r} is not a time; write it as 2026-03-29T02:30 or 2026-03-29T02:30+01:00") from None
    return to_microseconds(moment if moment.tzinfo else moment.replace(tzinfo=find_zone(app.settings.timezone)))


def _entry(schedule: Schedule, now: int, environment: str) -> dict[str, Any]:
    why_not = reason_to_skip(schedule, environment)
    tick = None if why_not else schedule.after(now)
    return {
        "name": schedule.name,
        "job": schedule.job.handler,
        "queue": None if schedule.inline else schedule.job.queue,
        "expression": schedule.expression,
        "words": describe(schedule.expression),
        "timezone": schedule.timezone,
        "next": None if tick is None else to_datetime(tick),
        "depends_on": list(schedule.job.depends_on),
        "note": why_not,
    }


def _cell(entry: dict[str, Any], column: str) -> Any:
    if column == "next" and entry["next"] is not None:
        return _zoned(entry["next"].astimezone(find_zone(entry["timezone"])))
    return entry[column]


def _occasion(each: Occasion) -> dict[str, Any]:
    kind = "change" if each.is_change else "tick"
    return {"kind": kind, "local": each.local.isoformat(), "utc": each.local.astimezone(UTC), "note": each.note}


def _step(step: Step) -> dict[str, Any]:
    tick = to_datetime(step.tick)
    return {"name": step.schedule.name, "tick": tick, "would": step.action, "queue": _place(step), "why": step.why}


def _place(step: Step) -> str | None:
    return step.schedule.job.queue if step.action == "enqueue" else None


def _zoned(local: datetime) -> str:
    return local.isoformat(" ", timespec="minutes")


def _utc(local: datetime) -> str:
    return f"{local.astimezone(UTC):%Y-%m-%d %H:%M}"
