"""`tenure jobs`: single jobs, wherever they are in their lives."""

from collections.abc import Mapping
from typing import Any

import click

from tenure.app import Tenure
from tenure.backends.asking import STATES, Fate, Inspectable, Turn
from tenure.cli import printing, records, searching
from tenure.cli.cron_times import moment_of
from tenure.cli.durations import as_given, as_text, microseconds
from tenure.cli.failures import CommandError
from tenure.cli.loading import any_app
from tenure.cli.searching import Sought
from tenure.clock import to_datetime
from tenure.definition.progress import Progress

_TOLD: dict[Fate, str] = {"cancelled": "cancelled", "asked": "asked to stop, because it is running"}


@click.group()
def jobs() -> None:
    """List and show jobs, try them again, reschedule and cancel them."""


@jobs.command("list")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only this state; may be repeated.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--job", "handler", metavar="HANDLER", help="Only jobs of this handler.")
@click.option("--name", metavar="TEXT", help="Only jobs of this name.")
@click.option("--older-than", metavar="TIME", help="Only those that ended, or were enqueued, longer ago: 10m, 2d.")
@click.option("--newer-than", metavar="TIME", help="Only those that ended, or were enqueued, within this time.")
@click.option("--text", metavar="TEXT", help="Only those with this in their id, name, reason, result or an error.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(limit: int, as_json: bool, older_than: str | None, newer_than: str | None, **sought: Any) -> None:
    """List jobs: what waits in the order it runs, what has ended the newest first."""
    with any_app() as app:
        listing = app.shelves().listing
        now = app.clock.now()
        before = None if older_than is None else now - microseconds(older_than, "--older-than")
        since = None if newer_than is None else now - microseconds(newer_than, "--newer-than")
        sought["queue"] = sought["queue"] and app.queues.resolve(sought["queue"])
        found, is_more = searching.found(listing, Sought(**sought, since=since, before=before), limit)
    rows = [records.line(job) for job in found]
    if as_json:
        printing.as_json(rows)
    elif rows:
        printing.table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        click.echo("no such jobs")
    if is_more:
        click.echo("there may be more: --limit shows more, a narrower search finds what is further back", err=True)


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def retry(ids: tuple[str, ...], as_json: bool) -> None:
    """Make dead letters ready again, with fresh counters."""
    with any_app() as app:
        revived = records.dead_letters(app).replay(ids)
        others = [id for id in dict.fromkeys(ids) if id not in revived]
        refused = "; ".join(_no_retry(app, id) for id in others)
    if as_json:
        printing.as_json({"retried": revived})
    else:
        for id in revived:
            click.echo(f"{printing.text(id)} is ready again")
    if refused:
        raise CommandError(refused)


@jobs.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(id: str, as_json: bool) -> None:
    """Show everything that is known about a job."""
    with any_app() as app:
        found = records.everything(records.find(app, id), app.channel().wire)
    display(found, as_json)


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cancel(ids: tuple[str, ...], as_json: bool) -> None:
    """End waiting jobs at once, and ask running ones to stop."""
    with any_app() as app:
        fates = app.cancel_many(ids)
        refused = "; ".join(_refusal(app, id, fate) for id, fate in fates.items() if fate not in _TOLD)
    if as_json:
        printing.as_json(fates)
    else:
        for id, fate in fates.items():
            if fate in _TOLD:
                click.echo(f"{printing.text(id)} {_TOLD[fate]}")
    if refused:
        raise CommandError(refused)


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--delay", metavar="TIME", help="Start in this time, and no sooner: 90, 30s, 10m; 0 is at once.")
@click.option("--at", metavar="TIME", help="Start at this time, such as 2026-03-29T02:30.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reschedule(ids: tuple[str, ...], delay: str | None, at: str | None, as_json: bool) -> None:
    """Let jobs that wait start at another time."""
    if (delay is None) == (at is None):
        raise CommandError("say when: --delay TIME or --at TIME")
    with any_app() as app:
        moment = None if at is None else to_datetime(moment_of(app, at))
        turns = app.reschedule_many(ids, delay=as_given(delay or "0"), at=moment)
        refused = "; ".join(_not_moved(app, id, turn) for id, turn in turns.items() if turn != "rescheduled")
    if as_json:
        printing.as_json(turns)
    else:
        when = f"at {printing.text(moment)}" if moment else "at once" if delay == "0" else f"in {as_text(delay or '')}"
        for id, turn in turns.items():
            if turn == "rescheduled":
                click.echo(f"{printing.text(id)} may start {when}")
    if refused:
        raise CommandError(refused)


def display(found: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        printing.as_json(found)
        return
    failures, progress = found["failures"], found["progress"]
    told = {
        "progress": progress and str(Progress(**progress)),
        "cancel_asked": found["cancel_asked"] or None,
        "failures": None,
        "run": _took(found["run"]) or None,
    }
    printing.facts({**found, **told})
    for failure in failures:
        place = f" ({failure['place']})" if failure["place"] else ""
        story = f"{failure['type']}: {failure['message']}{place}"
        whose = f" on {printing.text(failure['worker'])}" if failure["worker"] else ""
        took = f" ({_took(failure['run'])})" if failure["run"] else ""
        when = f"attempt {failure['attempt']} at {printing.text(failure['at'])}{whose}{took}"
        click.echo(f"{when}: {printing.text(story)}")
    if failures and failures[-1]["trace"]:
        click.echo(printing.text(failures[-1]["trace"]), nl=False)


def _took(run: Mapping[str, Any] | None) -> str:
    """As `waited 0.2 s, ran 1.5 s, cpu 0.7 s, peak 31 MB`, as far as it is known."""
    if run is None:
        return ""
    parts = [
        ("waited", run["wait"], printing.seconds),
        ("ran", run["seconds"], printing.seconds),
        ("cpu", run["cpu"], printing.seconds),
        ("peak", run["memory"], printing.megabytes),
        ("on", run["worker"], printing.text),
    ]
    return ", ".join(f"{word} {show(value)}" for word, value, show in parts if value is not None)


def _no_retry(app: Tenure, id: str) -> str:
    record = app.backend.find(id) if isinstance(app.backend, Inspectable) else None
    if record is None:
        return f"no job {id!r} is known here"
    return f"job {id!r} is {record.state}; only dead letters can be tried again"


def _not_moved(app: Tenure, id: str, turn: Turn) -> str:
    if turn == "unknown":
        return f"no job {id!r} is known here; it may have been trimmed, or live on another backend"
    if turn == "running":
        return f"job {id!r} is running; only jobs that wait can be rescheduled"
    record = app.backend.find(id) if isinstance(app.backend, Inspectable) else None
    return f"job {id!r} is {record.state if record else 'over'}; only jobs that wait can be rescheduled"


def _refusal(app: Tenure, id: str, fate: Fate) -> str:
    if fate == "unknown":
        return f"no job {id!r} is known here; it may have been trimmed, or live on another backend"
    record = app.backend.find(id) if isinstance(app.backend, Inspectable) else None
    return f"job {id!r} cannot be cancelled any more: it is {record.state if record else 'over'}"
