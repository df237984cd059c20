"""The commands of `tenure cron` through a remote dashboard: list, preview, explain, history, pause, resume and run."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from tenure.app.dashboard.schedule_actions import PauseSchedule, ResumeSchedule, RunSchedule
from tenure.app.dashboard.schedules import SchedulePanel, ScheduleRow, SchedulesPage, SchedulesQuery
from tenure.cli import output
from tenure.cli.errors import CommandError
from tenure.cli.remote import RemoteDashboard
from tenure.cli.tables import Column, print_rows

_LIST_COLUMNS: Sequence[str | Column] = (
    "name",
    Column("job", rank=2),
    Column("queue", rank=4),
    "expression",
    Column("timezone", rank=3),
    "next",
    Column("note", rank=1),
)
_TICK_COLUMNS: Sequence[str | Column] = (
    "tick",
    "state",
    Column("job", rank=2, show=output.short_id),
    Column("why", rank=1),
)


def list_schedules(remote: RemoteDashboard, as_json: bool) -> None:
    """As `tenure cron list`."""
    query, rows = SchedulesQuery(), list[ScheduleRow]()
    while True:
        page = _checked(remote.read(query))
        rows += page.schedules
        if page.next is None:
            break
        query = msgspec.structs.replace(query, after=page.next)
    fields = [_fields(row) for row in rows]
    if as_json:
        output.print_json(fields)
    elif fields:
        print_rows(_LIST_COLUMNS, fields)
    else:
        click.echo("no schedules are registered")


def explain_schedule(remote: RemoteDashboard, name: str, as_json: bool) -> None:
    """As `tenure cron explain`."""
    panel = _panel(remote, name)
    if as_json:
        output.print_json(msgspec.to_builtins(panel))
        return
    sentence = "".join(text for text, _ in panel.sentence)
    upcoming = ", ".join(tick.local for tick in panel.upcoming)
    output.print_facts(
        {"name": name, "what": sentence, **dict(panel.facts), "warning": panel.warning, "next": upcoming}
    )


def preview_schedule(remote: RemoteDashboard, name: str, as_json: bool) -> None:
    """As `tenure cron preview`, with as many ticks as the page shows."""
    ticks = _panel(remote, name).upcoming
    if as_json:
        output.print_json(msgspec.to_builtins(ticks))
    elif ticks:
        print_rows(
            ("local", "utc", "note"), [{"local": each.local, "utc": each.at, "note": each.note} for each in ticks]
        )
    else:
        click.echo("no more ticks will follow")


def show_history(remote: RemoteDashboard, name: str, as_json: bool) -> None:
    """As `tenure cron history`, with as many ticks as the page shows."""
    ticks = [
        {"tick": mark.at, "state": mark.outcome, "job": mark.id, "why": mark.why}
        for mark in reversed(_panel(remote, name).row.ticks)
    ]
    if as_json:
        output.print_json(ticks)
    elif ticks:
        print_rows(_TICK_COLUMNS, ticks)
    else:
        click.echo(f"no ticks of {name!r} are known")


def pause_schedule(remote: RemoteDashboard, name: str | None, why: str | None) -> None:
    remote.act(PauseSchedule(name=name or ""), why)


def resume_schedule(remote: RemoteDashboard, name: str | None, why: str | None) -> None:
    remote.act(ResumeSchedule(name=name or ""), why)


def run_schedules(remote: RemoteDashboard, names: Sequence[str], as_json: bool) -> None:
    """Run each of these schedules once, now."""
    if not names:
        raise CommandError("with --remote, tenure cron run needs --only NAME: the scheduler runs what is due")
    done = {name: remote.act(RunSchedule(name=name)).counts for name in names}
    if as_json:
        output.print_json(done)
    else:
        for name, counts in done.items():
            click.echo(f"{output.format_value(name)}: {', '.join(f'{count} {word}' for word, count in counts.items())}")


def _panel(remote: RemoteDashboard, name: str) -> SchedulePanel:
    panel = _checked(remote.read(SchedulesQuery(name=name))).panel
    if panel is None:
        raise CommandError(f"no schedule {name!r} is known")
    return panel


def _checked(page: SchedulesPage) -> SchedulesPage:
    if page.fault or page.unavailable:
        raise CommandError(page.fault or page.unavailable or "")
    return page


def _fields(row: ScheduleRow) -> dict[str, Any]:
    paused = None if row.paused_since is None else "it is paused"
    return {
        "name": row.name,
        "job": row.handler,
        "queue": row.queue,
        "expression": row.expression,
        "words": row.words,
        "timezone": row.zone,
        "next": row.next_at,
        "note": paused or row.note,
    }
