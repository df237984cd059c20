"""`tenure purge`: delete ended jobs before their retention is over."""

import sys

import click

from tenure.app import Tenure
from tenure.backends.contract import Parts, trim_ended
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.arguments import parse_microseconds
from tenure.cli.errors import CommandError
from tenure.cli.output import LiveLine, progress_bar

_CHUNK = 500
_ENDED_STATES = ("done", "cancelled", "expired", "dead")


@click.command()
@click.option(
    "--state", "states", type=click.Choice(_ENDED_STATES), multiple=True, required=True, help="May be repeated."
)
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--before", metavar="TIME", default="0", help="Only jobs that ended longer ago: 90, 30s, 10m, 2d.")
@click.option("--dry-run", is_flag=True, help="Only print how many jobs would be deleted at most.")
@click.option("--force", is_flag=True, help="Do not ask.")
@output.json_option
def purge(states: tuple[str, ...], queue: str | None, before: str, dry_run: bool, force: bool, as_json: bool) -> None:
    """Delete ended jobs for good, in small chunks."""
    with any_app() as app:
        parts = app.parts()
        if parts.jobs is None and parts.dead_letters is None:
            raise CommandError("this backend stores no ended jobs")
        name = None if queue is None else app.queues.resolve(queue)
        at_most, moment = _count(app, states, name), app.clock.now() + 1 - parse_microseconds(before, "--before")
        if not dry_run:
            if not force:
                click.confirm(f"Delete {_how_many(at_most)} jobs for good?", abort=True, err=as_json)
            deleted = _delete(parts, states, name, moment, at_most)
    if dry_run:
        _print_count(as_json, "would_delete_at_most", f"would delete {_how_many(at_most)} jobs", at_most)
    else:
        _print_count(as_json, "deleted", f"deleted {deleted} jobs", deleted)


def _count(app: Tenure, states: tuple[str, ...], queue: str | None) -> int | None:
    parts = app.parts()
    if parts.queues is None or parts.archive is not None:
        return None
    counts = parts.queues.counts()
    return sum(counts[name][state] for name in counts for state in states if queue in (None, name))


def _how_many(at_most: int | None) -> str:
    return "an unknown number of" if at_most is None else f"up to {at_most}"


def _delete(parts: Parts, states: tuple[str, ...], queue: str | None, before: int, at_most: int | None) -> int:
    deleted = 0
    with LiveLine(sys.stderr) as line:
        for state in states:
            while chunk := trim_ended(parts, state, before, _CHUNK, queue):
                deleted += chunk
                line.show(progress_bar("deleted", deleted, at_most))
    return deleted


def _print_count(as_json: bool, field: str, sentence: str, count: int | None) -> None:
    if as_json:
        output.print_json({field: count})
    else:
        click.echo(sentence)
