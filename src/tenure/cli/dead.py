"""`tenure dead`: jobs that will not run again unless somebody says so."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import click
from msgspec import structs

from tenure.backends.letters import PAGE
from tenure.cli import canary, choosing, printing, records
from tenure.cli.choosing import Choice, choice
from tenure.cli.durations import as_given
from tenure.cli.failures import JOBS_DIED, CommandError
from tenure.cli.jobs import display
from tenure.cli.live import LiveLine, bar
from tenure.cli.loading import any_app
from tenure.definition.duration import to_seconds
from tenure.errors import JobNotFound

Verb = Callable[[Sequence[str]], list[str]]

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only tell how many there are, and why they died.")


@click.group()
def dead() -> None:
    """List, replay, export and purge dead letters."""


@dead.command("list")
@choosing.options
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many.")
@_json
def list_(limit: int, as_json: bool, **described: Any) -> None:
    """List dead letters, the oldest first."""
    with any_app() as app:
        letters = list(islice(choice(app, **described).letters(), limit + 1))
    found = [records.summary(letter) for letter in letters[:limit]]
    if as_json:
        printing.as_json(found)
    elif not found:
        click.echo("no dead letters")
    else:
        columns = ("id", "queue", "job", "died_at", "reason", "error")
        printing.table(columns, [[letter[column] for column in columns] for letter in found])
    if len(letters) > limit:
        click.echo(f"there are more than {limit}; --limit shows more", err=True)


@dead.command()
@click.argument("id")
@_json
def show(id: str, as_json: bool) -> None:
    """Show everything that is known about a dead letter."""
    with any_app() as app:
        for record in records.dead_among(app, [id]):
            found = records.everything(record, app.channel().wire)
            break
        else:
            state = records.find(app, id).state
            raise JobNotFound(f"job {id!r} is not a dead letter but {state}; `tenure jobs show` shows it")
    display(found, as_json)


@dead.command()
@choosing.ids
@choosing.every
@choosing.options
@_dry_run
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="The rest only once these have succeeded.")
@click.option("--wait", metavar="TIME", default="10m", show_default=True, help="How long the first ones may take.")
@_json
def replay(
    ids: tuple[str, ...], every: bool, dry_run: bool, first: int | None, wait: str, as_json: bool, **described: Any
) -> None:
    """Make dead letters ready again, with fresh counters."""
    choosing.check(ids, every, **described)
    with any_app() as app:
        chosen = choice(app, ids, **described)
        if dry_run:
            _tell("would_replay", chosen, as_json)
            return
        with _Work(chosen, records.dead_letters(app).replay, "replayed") as work:
            if first is not None:
                work.start_with(first, to_seconds(as_given(wait), "--wait"))
            work.go_on()
    work.report(as_json)


@dead.command()
@choosing.ids
@choosing.every
@choosing.options
@_dry_run
@click.option("--force", is_flag=True, help="Do not ask.")
@_json
def purge(ids: tuple[str, ...], every: bool, dry_run: bool, force: bool, as_json: bool, **described: Any) -> None:
    """Delete dead letters for good."""
    choosing.check(ids, every, **described)
    with any_app() as app:
        chosen = choice(app, ids, **described)
        if dry_run:
            _tell("would_purge", chosen, as_json)
            return
        letters = records.dead_letters(app)
        if not force:
            click.confirm(f"Delete {_how_many(chosen)} for good?", abort=True, err=as_json)
        with _Work(chosen, letters.discard, "purged") as work:
            work.go_on()
    work.report(as_json)


@dead.command()
@choosing.ids
@choosing.options
def export(ids: tuple[str, ...], **described: Any) -> None:
    """Print dead letters as lines of JSON, with payload and errors, secrets masked."""
    if ids:
        choosing.check(ids, False, **described)
    with any_app() as app, LiveLine(sys.stderr) as line:
        records.dead_letters(app)
        chosen = choice(app, ids, **described)
        wire, total, missing = app.channel().wire, chosen.total(), set(ids)
        for count, letter in enumerate(chosen.letters(), 1):
            printing.as_json_line(records.everything(letter, wire))
            missing.discard(letter.id)
            if not sys.stdout.isatty():
                line.show(bar("exported", count, total))
    _name_missing(missing)


class _Work:
    """A verb on its way through the letters that were chosen, with a line that tells how far it is."""

    def __init__(self, chosen: Choice, verb: Verb, done: str) -> None:
        self._chosen = chosen
        self._verb = verb
        self._done = done
        self._left: Iterator[str] = chain.from_iterable(chosen.batches())
        self._missing = set(chosen.ids)
        self._fates: list[canary.Fate] = []
        self._count = 0
        self._line = LiveLine(sys.stderr)
        self._total = chosen.total() if self._line.is_live else None

    def __enter__(self) -> "_Work":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._line.__exit__()

    def start_with(self, first: int, patience: float) -> None:
        """Only these for now; unless they all succeed in time, nothing is left to do."""
        backend = records.inspectable(self._chosen.app)
        self._fates = canary.watch(backend, self._apply(list(islice(self._left, first))), patience, self._line)
        if not all(fate.ok for fate in self._fates):
            self._left = iter(())

    def go_on(self) -> None:
        while ids := list(islice(self._left, PAGE)):
            self._apply(ids)

    def report(self, as_json: bool) -> None:
        """What was done; names what was not there, and what went wrong with those that went first."""
        failed = [fate for fate in self._fates if not fate.ok]
        if as_json:
            first = {"first": list(map(structs.asdict, self._fates))} if self._fates else {}
            printing.as_json({self._done: self._count, **first, "missing": sorted(self._missing)})
        else:
            click.echo(f"{self._done} {self._count}")
        if failed:
            for fate in failed:
                click.echo(printing.text(str(fate)), err=True)
            succeeded = len(self._fates) - len(failed)
            click.echo(f"stopped: {succeeded} of the first {len(self._fates)} succeeded", err=True)
            click.get_current_context().exit(JOBS_DIED)
        _name_missing(self._missing)

    def _apply(self, ids: list[str]) -> list[str]:
        affected = self._verb(ids)
        self._count += len(affected)
        self._missing -= set(affected)
        self._line.show(bar(self._done, self._count, self._total))
        return affected


def _tell(would: str, chosen: Choice, as_json: bool) -> None:
    """How many letters are meant, and why they died."""
    missing, reasons = set(chosen.ids), Counter[str]()
    for letter in chosen.letters():
        reasons[letter.reason or "-"] += 1
        missing.discard(letter.id)
    if as_json:
        printing.as_json({would: reasons.total(), "reasons": reasons, "missing": sorted(missing)})
    else:
        why = ", ".join(f"{count} {printing.text(reason)}" for reason, count in reasons.most_common())
        click.echo(f"{would.replace('_', ' ')} {reasons.total()}{f': {why}' if why else ''}")
    _name_missing(missing)


def _name_missing(missing: set[str]) -> None:
    if missing:
        raise CommandError(f"not among the dead letters: {', '.join(sorted(missing))}")


def _how_many(chosen: Choice) -> str:
    where = f" of queue {chosen.filter.queue!r}" if chosen.filter.queue else ""
    count = chosen.total()
    if count is None:
        count = sum(map(len, chosen.batches()))
    return f"{count} dead letter{'' if count == 1 else 's'}{where}"
