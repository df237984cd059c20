"""`tenure purge`: ended jobs are deleted before their retention is over."""

import sys

import click

from tenure.app import Tenure
from tenure.backends.asking import Counted
from tenure.backends.upkeep import Maintained
from tenure.cli import printing
from tenure.cli.durations import microseconds
from tenure.cli.failures import CommandError
from tenure.cli.live import LiveLine, bar
from tenure.cli.loading import any_app

_CHUNK = 500
_ENDED = ("done", "cancelled", "expired", "dead")


@click.command()
@click.option("--state", "states", type=click.Choice(_ENDED), multiple=True, required=True, help="May be repeated.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--before", metavar="TIME", default="0", help="Only those that ended longer ago: 90, 30s, 10m, 2d.")
@click.option("--dry-run", is_flag=True, help="Only tell how many there are, at most.")
@click.option("--force", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def purge(states: tuple[str, ...], queue: str | None, before: str, dry_run: bool, force: bool, as_json: bool) -> None:
    """Delete ended jobs for good, in small chunks."""
    with any_app() as app:
        places = [place for place in (app.backend, app.shelves().chronicle) if isinstance(place, Maintained)]
        if not places:
            raise CommandError("this backend keeps no jobs that have ended")
        name = None if queue is None else app.queues.resolve(queue)
        most, moment = _count(app, states, name), app.clock.now() + 1 - microseconds(before, "--before")
        if not dry_run:
            if not force:
                click.confirm(f"Delete {_how_many(most)} jobs for good?", abort=True, err=as_json)
            deleted = sum(_purge(place, states, name, moment, most) for place in places)
    if dry_run:
        _tell(as_json, "would_delete_at_most", f"would delete {_how_many(most)} jobs", most)
    else:
        _tell(as_json, "deleted", f"deleted {deleted} jobs", deleted)


def _count(app: Tenure, states: tuple[str, ...], queue: str | None) -> int | None:
    if not isinstance(app.backend, Counted) or app.shelves().chronicle is not None:
        return None
    counts = app.backend.counts()
    return sum(counts[name][state] for name in counts for state in states if queue in (None, name))


def _how_many(most: int | None) -> str:
    return "an unknown number of" if most is None else f"up to {most}"


def _purge(backend: Maintained, states: tuple[str, ...], queue: str | None, before: int, most: int | None) -> int:
    deleted = 0
    with LiveLine(sys.stderr) as line:
        for state in states:
            while chunk := backend.trim(state, before, _CHUNK, queue):
                deleted += chunk
                line.show(bar("deleted", deleted, most))
    return deleted


def _tell(as_json: bool, word: str, sentence: str, count: int | None) -> None:
    if as_json:
        printing.as_json({word: count})
    else:
        click.echo(sentence)
