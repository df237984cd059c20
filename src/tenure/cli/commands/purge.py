"""`tenure purge`: delete ended jobs before their retention is over."""

import re

import click

from tenure.app import Tenure
from tenure.backends.contract import Parts, trim_ended
from tenure.backends.job_filter import JobFilter, count_ended, search_dead_letters
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.arguments import parse_microseconds, parse_time
from tenure.cli.audit import audited, why_option
from tenure.cli.errors import CommandError
from tenure.cli.progress import ProgressBar
from tenure.cli.queue_names import find_queue
from tenure.clock import to_datetime
from tenure.errors import InvalidJob

_CHUNK = 500
_ANY_AGE = "0"
_DATE = re.compile(r"\d{4}-\d")
_ENDED_STATES = ("done", "cancelled", "expired", "dead")


@click.command()
@click.option(
    "--state", "states", type=click.Choice(_ENDED_STATES), multiple=True, required=True, help="May be repeated."
)
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option(
    "--before",
    metavar="TIME",
    default=_ANY_AGE,
    help="Only jobs that ended longer ago (90, 30s, 10m, 2d), or before a date.",
)
@click.option("--dry-run", is_flag=True, help="Only print how many jobs would be deleted.")
@click.option("--force", is_flag=True, help="Do not ask.")
@why_option
@output.json_option
def purge(
    states: tuple[str, ...], queue: str | None, before: str, dry_run: bool, force: bool, why: str | None, as_json: bool
) -> None:
    """Delete ended jobs for good, in small chunks."""
    with any_app() as app:
        parts = app.parts()
        if parts.jobs is None and parts.dead_letters is None:
            raise CommandError("this backend stores no ended jobs")
        name = None if queue is None else find_queue(app, queue)
        moment, any_age = _moment(app, before), before == _ANY_AGE
        must_count = dry_run or not force or any_age  # jobs of some age are read one by one
        count = _count(parts, states, moment, name, any_age=any_age) if must_count else None
        if not dry_run:
            if not force:
                click.confirm(f"Delete {count} jobs for good?", abort=True, err=as_json)
            target = [f"{state} jobs of {name or 'all queues'}, before {to_datetime(moment)}" for state in states]
            with (
                audited(app, "jobs.delete", target, why) as counts,
                ProgressBar("deleted", count, hidden=as_json) as bar,
            ):
                counts["deleted"] = deleted = _delete(parts, states, name, moment, bar)
    if not dry_run:
        _print_counts(as_json, f"deleted {deleted} jobs", deleted=deleted)
    else:
        _print_counts(as_json, f"would delete {count} jobs", would_delete=count, would_delete_at_most=count)


def _moment(app: Tenure, before: str) -> int:
    """The time before which jobs must have ended: a date, or so long ago."""
    if not _DATE.match(before):
        try:
            return app.clock.now() + 1 - parse_microseconds(before, "--before")
        except InvalidJob as error:
            raise CommandError(f"{error}, or a date such as 2026-03-29 or 2026-03-29T02:30") from error
    return parse_time(app, before, "--before")


def _count(parts: Parts, states: tuple[str, ...], before: int, queue: str | None, *, any_age: bool) -> int:
    """How many jobs would be deleted; jobs of any age need not be read one by one."""
    if not any_age or parts.queues is None or parts.archive is not None:
        return sum(_count_state(parts, state, before, queue) for state in states)
    counts = parts.queues.counts()
    return sum(counts[name][state] for name in counts for state in states if queue in (None, name))


def _count_state(parts: Parts, state: str, before: int, queue: str | None) -> int:
    reader = parts.archive if state == "dead" else parts.jobs
    count = 0 if reader is None else count_ended(reader, state, queue, before)
    if state != "dead" or parts.dead_letters is None:
        return count
    return count + sum(map(len, search_dead_letters(parts.dead_letters, JobFilter(queue=queue, before=before))))


def _delete(parts: Parts, states: tuple[str, ...], queue: str | None, before: int, bar: ProgressBar) -> int:
    deleted = 0
    for state in states:
        while chunk := trim_ended(parts, state, before, _CHUNK, queue):
            deleted += chunk
            bar.show(deleted)
    return deleted


def _print_counts(as_json: bool, sentence: str, **counts: int | None) -> None:
    if as_json:
        output.print_json(counts)
    else:
        click.echo(sentence)
