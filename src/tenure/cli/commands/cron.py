"""`tenure cron`: inspect, preview, explain, pause and resume schedules; `cron_run.py` runs them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tenure.app import Tenure
from tenure.backends.ledger import TICK_STATES, Ledger, TickRecord, TickState
from tenure.cli import output
from tenure.cli.app_loader import any_app, app_with_handlers
from tenure.cli.arguments import at_option, parse_time
from tenure.cli.audit import audited, why_option
from tenure.cli.commands.cron_run import existing_ledger, run, work
from tenure.cli.errors import CommandError
from tenure.cli.job_view import last_error
from tenure.cli.remote import remote_dashboard
from tenure.cli.tables import Column, print_rows, print_table
from tenure.clock import to_datetime
from tenure.cron.decision import reason_to_skip
from tenure.cron.describe import PreviewLine, around_change, describe, explain, never_together, upcoming
from tenure.cron.schedule import Schedule
from tenure.definition.cron_expression import find_zone


def _format_local(local: datetime) -> str:
    return local.isoformat(" ", timespec="seconds" if local.second else "minutes")


_LIST_COLUMNS: Sequence[str | Column] = (
    "name",
    Column("job", rank=2),
    Column("queue", rank=4),
    "expression",
    Column("timezone", rank=3),
    Column("last", rank=1, plain=_format_local),
    Column("next", plain=_format_local),
    Column("note", rank=1),
)
_HISTORY_COLUMNS = (
    Column("tick", show=lambda tick: _format_local(tick.astimezone())),
    Column("state"),
    Column("entered", rank=4),
    Column("ended", rank=1),
    Column("job", rank=2, show=output.short_id),
    Column("why", rank=1),
)
_EXTENDED_FIELDS = ("job_state", "attempts", "seconds", "output", "error")
_EXTENDED_COLUMNS = [Column(name, rank=3) for name in _EXTENDED_FIELDS]


@click.group()
def cron() -> None:
    """Inspect schedules and run the scheduler."""


cron.add_command(run)
cron.add_command(work)


@cron.command("list")
@output.json_option
def list_(as_json: bool) -> None:
    """List the schedules, those that are due next first."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_cron  # only remote commands need it

        remote_cron.list_schedules(remote, as_json)
        return
    with app_with_handlers() as app:
        now, environment = app.clock.now(), app.settings.environment
        ledger = existing_ledger(app)
        last, paused = (ledger.last_ticks(), ledger.paused()) if ledger else ({}, {})
        found = [_schedule_fields(schedule, now, environment, last, paused) for schedule in app.schedules.all()]
    found.sort(key=lambda entry: (entry["next"] is None, entry["next"] or now, entry["name"]))
    if as_json:
        output.print_json(found)
    elif found:
        print_rows(_LIST_COLUMNS, list(map(_in_own_zone, found)))
    else:
        click.echo("no schedules are registered")


@cron.command()
@click.argument("name")
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many ticks.")
@click.option("--around-dst", is_flag=True, help="Show the ticks around the next change of the clock.")
@at_option
@output.json_option
def preview(name: str, count: int, around_dst: bool, at: str | None, as_json: bool) -> None:
    """Show the next ticks of a schedule, in its time zone."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_cron  # only remote commands need it

        remote.refuse(at or around_dst, "--at and --around-dst")
        remote_cron.preview_schedule(remote, name, as_json)
        return
    with app_with_handlers() as app:
        schedule, moment = app.schedules.get(name), parse_time(app, at)
        found = (around_change if around_dst else upcoming)(schedule, moment, count)
    if as_json:
        output.print_json([_tick_fields(each) for each in found])
    elif found:
        rows = [[_format_local(each.local), _format_utc(each.local), each.note] for each in found]
        print_table((schedule.timezone, "UTC", "note"), rows)
    elif around_dst:
        click.echo(f"the clock of {schedule.timezone} does not change within two years")
    else:
        click.echo("no more ticks will follow")


@cron.command("explain")
@click.argument("name")
@at_option
@output.json_option
def explain_(name: str, at: str | None, as_json: bool) -> None:
    """Say what a schedule does, and why."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_cron  # only remote commands need it

        remote.refuse(at, "--at")
        remote_cron.explain_schedule(remote, name, as_json)
        return
    with app_with_handlers() as app:
        schedule, schedules, moment = app.schedules.get(name), app.schedules.all(), parse_time(app, at)
        facts: dict[str, Any] = {"name": name, "job": schedule.job.handler}
        facts |= explain(schedule, app.settings.environment)
        facts["warning"] = never_together(schedule, schedules, moment)
        ticks = [each.local for each in upcoming(schedule, moment, 3)]
        needed_by = [each.name for each in schedules if name in each.job.depends_on]
        ledger = existing_ledger(app)
        facts["last ticks"] = _describe_last_ticks(ledger, schedule) if ledger else None
        facts["not now"] = reason_to_skip(schedule, app.settings.environment, ledger.paused()) if ledger else None
    if as_json:
        found = {**facts, "needed by": needed_by, "next": [tick.astimezone(UTC) for tick in ticks]}
        output.print_json({topic.replace(" ", "_"): value for topic, value in found.items()})
    else:
        facts |= {"needed by": ", ".join(needed_by) or None, "next": ", ".join(map(_format_local, ticks)) or None}
        output.print_facts(facts)


@cron.command()
@click.argument("name")
@click.option("--status", type=click.Choice(TICK_STATES), multiple=True, help="Only ticks in this state; repeatable.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many ticks.")
@output.json_option
@click.option("--extended", is_flag=True, help="Show the job of each tick too: its attempts, output and error.")
def history(name: str, status: tuple[TickState, ...], limit: int, as_json: bool, extended: bool) -> None:
    """Show the last ticks of a schedule and how they ended, the newest first."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_cron  # only remote commands need it

        remote.refuse(status or extended, "--status and --extended")
        remote_cron.show_history(remote, name, as_json)
        return
    with any_app() as app:
        found = [_history_fields(each) for each in app.cron.history(name, states=status, limit=limit)]
        if extended:
            found = [each | _job_fields(app, each["job"]) for each in found]
    columns = [*_HISTORY_COLUMNS, *(_EXTENDED_COLUMNS if extended else ())]
    if as_json:
        output.print_json(found)
    elif found:
        print_rows(columns, found)
    else:
        click.echo(f"no ticks of {name!r} are known")


@cron.command()
@click.argument("name", required=False)
@why_option
def pause(name: str | None, why: str | None) -> None:
    """Skip the ticks of a schedule, or of all schedules, until it is resumed."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_cron  # only remote commands need it

        remote_cron.pause_schedule(remote, name, why)
        click.echo("all schedules are paused" if name is None else f"{name!r} is paused")
        return
    with app_with_handlers() as app, audited(app, "schedule.pause", [name or "all schedules"], why) as counts:
        app.cron.pause(name)
        counts["paused"] += 1
    click.echo("all schedules are paused" if name is None else f"{name!r} is paused")


@cron.command()
@click.argument("name", required=False)
@why_option
def resume(name: str | None, why: str | None) -> None:
    """Resume a schedule that was paused; without NAME, end a pause of all schedules."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_cron  # only remote commands need it

        remote_cron.resume_schedule(remote, name, why)
        click.echo("schedules are resumed" if name is None else f"{name!r} is resumed")
        return
    with any_app() as app:
        paused = app.cron.ledger.paused()
        if (name or "") not in paused:
            what = "all schedules at once are" if name is None else f"{name!r} is"
            others = f"; paused are: {', '.join(map(repr, filter(None, paused)))}" if any(paused) else ""
            raise CommandError(f"{what} not paused{others}")
        with audited(app, "schedule.resume", [name or "all schedules"], why) as counts:
            app.cron.resume(name)
            counts["resumed"] += 1
    click.echo("schedules are resumed" if name is None else f"{name!r} is resumed")


def _describe_last_ticks(ledger: Ledger, schedule: Schedule) -> str | None:
    """The three newest ticks on one line."""
    shown = [
        f"{_format_local(to_datetime(each.tick).astimezone(find_zone(schedule.timezone)))} {each.state}"
        + (f" ({each.why})" if each.why else "")
        for each in ledger.history(schedule.name, limit=3)
    ]
    return ", ".join(shown) or None


def _schedule_fields(
    schedule: Schedule, now: int, environment: str, last: Mapping[str, int], paused: Collection[str]
) -> dict[str, Any]:
    tick = None if reason_to_skip(schedule, environment) else schedule.after(now)
    return {
        "name": schedule.name,
        "job": schedule.job.handler,
        "queue": None if schedule.inline else schedule.job.queue,
        "expression": schedule.expression,
        "words": describe(schedule.expression),
        "timezone": schedule.timezone,
        "last": output.as_datetime(last.get(schedule.name)),
        "next": None if tick is None else to_datetime(tick),
        "depends_on": list(schedule.job.depends_on),
        "note": reason_to_skip(schedule, environment, paused),
    }


def _tick_fields(each: PreviewLine) -> dict[str, Any]:
    kind = "change" if each.is_change else "tick"
    return {"kind": kind, "local": each.local.isoformat(), "utc": each.local.astimezone(UTC), "note": each.note}


def _history_fields(each: TickRecord) -> dict[str, Any]:
    ended = each.noted_at if each.state in ("succeeded", "failed", "skipped") else None
    return {
        "schedule": each.schedule,
        "tick": output.as_datetime(each.tick),
        "due": output.as_datetime(each.due),
        "state": each.state,
        "entered": output.as_datetime(each.entered_at),
        "ended": output.as_datetime(ended),
        "job": each.id,
        "why": each.why,
    }


def _job_fields(app: Tenure, id: str) -> dict[str, Any]:
    record = app.parts().find(id)
    if record is None:
        return dict.fromkeys((*_EXTENDED_FIELDS, "trace"))
    return {
        "job_state": record.state,
        "attempts": record.attempts,
        "seconds": record.seconds,
        "output": record.output,
        "error": last_error(record.failures),
        "trace": record.failures[-1].trace if record.failures else None,
    }


def _in_own_zone(entry: dict[str, Any]) -> dict[str, Any]:
    zone = find_zone(entry["timezone"])
    return entry | {name: entry[name] and entry[name].astimezone(zone) for name in ("last", "next")}


def _format_utc(local: datetime) -> str:
    return f"{local.astimezone(UTC):{'%Y-%m-%d %H:%M:%S' if local.second else '%Y-%m-%d %H:%M'}}"
