"""`tenure jobs`: list jobs of any state; show, retry, cancel, reschedule and forget single jobs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from tenure.app import Tenure
from tenure.backends.contract import required
from tenure.backends.job_filter import JobFilter, search_jobs
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.arguments import describe_duration, find_job, number_or_text, parse_microseconds, parse_time, state_of
from tenure.cli.audit import audited, why_option
from tenure.cli.errors import CommandError
from tenure.cli.job_ids import resolve_id, resolve_ids
from tenure.cli.job_view import job_details, job_row, print_job
from tenure.cli.progress import ProgressBar
from tenure.cli.queue_names import find_queue
from tenure.cli.remote import remote_dashboard
from tenure.cli.tables import Column, print_rows
from tenure.clock import to_datetime
from tenure.events import JOB_STATES


def _join_words(words: Sequence[str]) -> str:
    return ", ".join(words)


_LIST_COLUMNS = (
    Column("id", show=output.short_id),
    Column("state"),
    Column("queue", rank=2),
    Column("job"),
    Column("name", rank=5),
    Column("runs", rank=6),
    Column("attempts", rank=7),
    Column("enqueued_at", "enqueued", rank=1),
    Column("due_at", "due", rank=4),
    Column("finished_at", "ended", rank=3),
    Column("why", rank=1),
    Column("tags", rank=4, show=_join_words, plain=_join_words),
)
_BATCH = 500
_CANCEL_WORDS: dict[str, str] = {"cancelled": "cancelled", "asked": "asked to stop, because it is running"}
_RETRIED = ("replayed", "rescheduled", "new", "duplicate")
_ids_argument = click.argument("ids", metavar="ID...", nargs=-1, required=True)


@click.group()
def jobs() -> None:
    """List, show, retry, reschedule, cancel and forget jobs."""


@jobs.command("list")
@click.option(
    "--state", "states", type=click.Choice(JOB_STATES), multiple=True, help="Only this state; may be repeated."
)
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--job", "handler", metavar="HANDLER", help="Only jobs of this handler.")
@click.option("--name", metavar="TEXT", help="Only jobs of this name.")
@click.option("--tag", "tags", metavar="WORD", multiple=True, help="Only jobs with this tag; may be repeated.")
@click.option("--older-than", metavar="TIME", help="Only those that ended, or were enqueued, longer ago: 10m, 2d.")
@click.option("--newer-than", metavar="TIME", help="Only those that ended, or were enqueued, within this time.")
@click.option("--text", metavar="TEXT", help="Only those with this text in their id, name, reason, result or an error.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@output.json_option
def list_(limit: int, as_json: bool, older_than: str | None, newer_than: str | None, **filters: Any) -> None:
    """List jobs: waiting jobs in the order in which they run, ended jobs newest first.

    With --tag, the jobs that were enqueued last come first.
    """
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        filters |= {"older_than": older_than, "newer_than": newer_than}
        remote_jobs.list_jobs(remote, limit, as_json, filters)
        return
    with any_app() as app:
        reader = required(app.parts().jobs, "lists of jobs")
        now = app.clock.now()
        before = None if older_than is None else now - parse_microseconds(older_than, "--older-than")
        since = None if newer_than is None else now - parse_microseconds(newer_than, "--newer-than")
        filters["queue"] = filters["queue"] and find_queue(app, filters["queue"])
        found, is_more = search_jobs(reader, JobFilter(**filters, since=since, before=before), limit)
    rows = [job_row(job) for job in found]
    if as_json:
        output.print_json(rows)
    elif rows:
        print_rows(_LIST_COLUMNS, rows)
    else:
        click.echo("no such jobs")
    if is_more:
        click.echo("there may be more: use --limit to list more, or narrow the search to reach older jobs", err=True)


@jobs.command()
@_ids_argument
@why_option
@output.json_option
def retry(ids: tuple[str, ...], why: str | None, as_json: bool) -> None:
    """Run jobs again: dead letters, jobs in backoff now, and ended jobs as new ones."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote_jobs.retry_jobs(remote, ids, why, as_json)
        return
    with any_app() as app:
        ids = resolve_ids(app, ids)
        results: dict[str, str] = {}
        new_ids: dict[str, str] = {}
        with audited(app, "jobs.retry", ids, why) as counts, ProgressBar("retried", len(ids), hidden=as_json) as bar:
            for batch in _batches(ids, bar):
                done = app.jobs.retry(batch)
                counts.update(done.counts)
                results |= done.results
                new_ids |= done.new_ids
        refused = [_why_not_retried(app, id, each) for id, each in results.items() if each not in _RETRIED]
    retried = [id for id, each in results.items() if each in _RETRIED]
    if as_json:
        output.print_json({"retried": retried, **({"new_ids": new_ids} if new_ids else {})})
    else:
        for id in retried:
            new = new_ids.get(id)
            click.echo(f"{output.format_value(id)} {f'runs again as {new}' if new else 'is ready again'}")
    _raise_refused(refused)


@jobs.command()
@click.argument("id")
@output.json_option
def show(id: str, as_json: bool) -> None:
    """Show all that is known about a job."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote_jobs.show_job(remote, id, as_json)
        return
    with any_app() as app:
        details = job_details(find_job(app, resolve_id(app, id)), app.open_backend().wire)
    print_job(details, as_json)


@jobs.command()
@_ids_argument
@why_option
@output.json_option
def cancel(ids: tuple[str, ...], why: str | None, as_json: bool) -> None:
    """Cancel waiting jobs at once, and ask running jobs to stop."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote_jobs.cancel_jobs(remote, ids, why, as_json)
        return
    with any_app() as app:
        ids = resolve_ids(app, ids)
        results: dict[str, str] = {}
        with audited(app, "jobs.cancel", ids, why) as counts, ProgressBar("cancelled", len(ids), hidden=as_json) as bar:
            for batch in _batches(ids, bar):
                done = app.jobs.cancel(batch)
                counts.update(done.counts)
                results |= done.results
        refused = [_why_not_cancelled(app, id, each) for id, each in results.items() if each not in _CANCEL_WORDS]
    _print_results(results, as_json, lambda result: _CANCEL_WORDS.get(result))
    _raise_refused(refused)


@jobs.command()
@_ids_argument
@click.option("--delay", metavar="TIME", help="Start only after this time: 90, 30s, 10m; 0 is at once.")
@click.option("--at", metavar="TIME", help="Start at this time: 2026-03-29T02:30, 'tomorrow 09:00'.")
@why_option
@output.json_option
def reschedule(ids: tuple[str, ...], delay: str | None, at: str | None, why: str | None, as_json: bool) -> None:
    """Change when waiting jobs may start."""
    if (delay is None) == (at is None):
        raise CommandError("give either --delay TIME or --at TIME")
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote_jobs.reschedule_jobs(remote, ids, delay, at, why, as_json)
        return
    with any_app() as app:
        moment = None if at is None else to_datetime(parse_time(app, at))
        ids, wait = resolve_ids(app, ids), number_or_text(delay or "0")
        results: dict[str, str] = {}
        bar = ProgressBar("rescheduled", len(ids), hidden=as_json)
        with audited(app, "jobs.reschedule", ids, why) as counts, bar:
            for batch in _batches(ids, bar):
                done = app.jobs.reschedule(batch, delay=wait, at=moment)
                counts.update(done.counts)
                results |= done.results
        refused = [_why_not_moved(app, id, each) for id, each in results.items() if each != "rescheduled"]
    when = f"at {output.format_value(moment)}" if moment else f"in {describe_duration(delay or '')}"
    words = f"may start {'at once' if delay == '0' else when}"
    _print_results(results, as_json, lambda result: words if result == "rescheduled" else None)
    _raise_refused(refused)


@jobs.command()
@_ids_argument
@why_option
@output.json_option
def forget(ids: tuple[str, ...], why: str | None, as_json: bool) -> None:
    """Erase the payloads and results of ended jobs for good; their other records stay."""
    if (remote := remote_dashboard()) is not None:
        remote.refuse(True, "tenure jobs forget")
    with any_app() as app:
        ids, forget = resolve_ids(app, ids), app.jobs.forget
        with audited(app, "jobs.forget", ids, why) as counts, ProgressBar("forgotten", len(ids), hidden=as_json) as bar:
            forgotten = {id for batch in _batches(ids, bar) for id in forget(batch)}
            counts["forgotten"] = len(forgotten)
        results = {id: "forgotten" if id in forgotten else "refused" for id in ids}
        refused = [_why_not_forgotten(app, id) for id in results if id not in forgotten]
    _print_results(
        results, as_json, lambda result: "has no payload and no result any more" if result == "forgotten" else None
    )
    _raise_refused(refused)


def _batches(ids: Sequence[str], bar: ProgressBar) -> Iterator[Sequence[str]]:
    """The ids in batches; the bar shows how many were handled before each."""
    for start in range(0, len(ids), _BATCH):
        bar.show(start)
        yield ids[start : start + _BATCH]


def _print_results(results: Mapping[str, Any], as_json: bool, describe: Callable[[Any], str | None]) -> None:
    if as_json:
        output.print_json(results)
        return
    for id, result in results.items():
        if words := describe(result):
            click.echo(f"{output.format_value(id)} {words}")


def _raise_refused(refused: list[str]) -> None:
    if refused:
        raise CommandError("; ".join(refused))


def _why_not_retried(app: Tenure, id: str, result: str) -> str:
    if result == "unknown":
        return f"no job {id!r} is known here"
    if result == "erased":
        return f"job {id!r} is {state_of(app, id)}, and its payload is no longer kept: enqueue it anew"
    if result == "unreadable":
        return f"the message of job {id!r} cannot be read: `tenure jobs show` says why"
    return f"job {id!r} is {state_of(app, id) or 'over'}; only ended jobs and jobs in backoff can be retried"


def _why_not_cancelled(app: Tenure, id: str, result: str) -> str:
    if result == "unknown":
        return _unknown(id)
    return f"job {id!r} can no longer be cancelled: it is {state_of(app, id) or 'over'}"


def _why_not_moved(app: Tenure, id: str, result: str) -> str:
    if result == "unknown":
        return _unknown(id)
    state = "running" if result == "running" else state_of(app, id) or "over"
    return f"job {id!r} is {state}; only waiting jobs can be rescheduled"


def _why_not_forgotten(app: Tenure, id: str) -> str:
    state = state_of(app, id)
    if state is None:
        return _unknown(id)
    hint = "purge it with `tenure dead purge`" if state == "dead" else "only ended jobs can be forgotten"
    return f"job {id!r} is {state}; {hint}"


def _unknown(id: str) -> str:
    return f"no job {id!r} is known here; it may have been deleted, or be on another backend"
