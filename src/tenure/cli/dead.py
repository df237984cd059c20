"""`tenure dead`: jobs that will not run again unless somebody says so."""

import sys
from collections.abc import Callable, Iterator, Sequence

import click

from tenure.app import Tenure
from tenure.backends.contract import DeadLetters, Inspectable, JobRecord
from tenure.cli import printing, records
from tenure.cli.failures import CommandError
from tenure.cli.jobs import display
from tenure.cli.live import LiveLine
from tenure.cli.loading import any_app
from tenure.errors import JobNotFound

PAGE = 500
Verb = Callable[[Sequence[str]], list[str]]

_ids = click.argument("ids", metavar="ID...", nargs=-1)
_all = click.option("--all", "every", is_flag=True, help="Every dead letter, or all of one queue.")
_queue = click.option("--queue", metavar="NAME", help="Only this queue.")


@click.group()
def dead() -> None:
    """List, replay and purge dead letters."""


@dead.command("list")
@_queue
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(queue: str | None, limit: int, as_json: bool) -> None:
    """List dead letters, the oldest first."""
    with any_app() as app:
        page = records.dead_letters(app).dead(queue=queue, limit=limit + 1)
    found = [records.summary(record) for record in page[:limit]]
    if as_json:
        printing.as_json(found)
    elif not found:
        click.echo("no dead letters")
    else:
        columns = ("id", "queue", "job", "died_at", "reason", "error")
        printing.table(columns, [[letter[column] for column in columns] for letter in found])
    if len(page) > limit:
        click.echo(f"there are more than {limit}; --limit shows more", err=True)


@dead.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(id: str, as_json: bool) -> None:
    """Show everything that is known about a dead letter."""
    with any_app() as app:
        record = records.find(app, id)
        if record.state != "dead":
            raise JobNotFound(f"job {id!r} is not a dead letter but {record.state}; `tenure jobs show` shows it")
        found = records.everything(record, app.channel().wire)
    display(found, as_json)


@dead.command()
@_ids
@_all
@_queue
def replay(ids: tuple[str, ...], every: bool, queue: str | None) -> None:
    """Make dead letters ready again, with fresh counters."""
    _check(ids, every, queue)
    with any_app() as app:
        letters = records.dead_letters(app)
        _act(app, letters, letters.replay, "replayed", ids, queue)


@dead.command()
@_ids
@_all
@_queue
@click.option("--force", is_flag=True, help="Do not ask.")
def purge(ids: tuple[str, ...], every: bool, queue: str | None, force: bool) -> None:
    """Delete dead letters for good."""
    _check(ids, every, queue)
    with any_app() as app:
        letters = records.dead_letters(app)
        if not force:
            click.confirm(f"Delete {_how_many(app, ids, queue)} for good?", abort=True)
        _act(app, letters, letters.discard, "purged", ids, queue)


def _check(ids: Sequence[str], every: bool, queue: str | None) -> None:
    if every == bool(ids):
        raise CommandError("name the dead letters by their ids, or say --all")
    if queue and not every:
        raise CommandError("--queue goes with --all; ids need no queue")


def _how_many(app: Tenure, ids: Sequence[str], queue: str | None) -> str:
    where = f" of queue {queue!r}" if queue else ""
    if ids:
        count = len(set(ids))
    elif isinstance(app.backend, Inspectable):
        counts = app.backend.counts()
        count = sum(counts[name]["dead"] for name in counts if queue in (None, name))
    else:
        return f"every dead letter{where}"
    return f"{count} dead letter{'' if count == 1 else 's'}{where}"


def _act(app: Tenure, letters: DeadLetters, verb: Verb, done: str, ids: Sequence[str], queue: str | None) -> None:
    """Apply a verb to the ids, or to every letter page by page, and say how many there were."""
    if ids:
        affected = verb(ids)
        click.echo(f"{done} {len(affected)}")
        if missing := sorted({*ids} - {*affected}):
            raise JobNotFound(f"not among the dead letters: {', '.join(missing)}")
        return
    total = 0
    with LiveLine(sys.stderr) as line:
        for page in _pages(letters, queue, until=app.clock.now()):
            total += len(verb([record.id for record in page]))
            line.show(f"{done} {total} …")
    click.echo(f"{done} {total}")


def _pages(letters: DeadLetters, queue: str | None, until: int) -> Iterator[list[JobRecord]]:
    """What was dead when the command began: a replayed job that dies again is left for the next time."""
    after: tuple[int, str] | None = None
    while page := letters.dead(queue=queue, limit=PAGE, after=after):
        after = (page[-1].finished_at or 0, page[-1].id)
        old = [record for record in page if (record.finished_at or 0) <= until]
        if old:
            yield old
        if len(old) < len(page):
            return
