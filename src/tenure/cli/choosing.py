"""Which dead letters a command is about: those named by their ids, or all that the options describe."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import click

from tenure.app import Tenure
from tenure.backends.asking import Counted, JobRecord
from tenure.backends.letters import PAGE, Filter, pages
from tenure.cli import records
from tenure.cli.durations import microseconds
from tenure.cli.failures import CommandError

C = TypeVar("C", bound=Callable[..., Any])

ids = click.argument("ids", metavar="ID...", nargs=-1)
every = click.option("--all", "every", is_flag=True, help="Every dead letter.")
_options = (
    click.option("--queue", metavar="NAME", help="Only this queue."),
    click.option("--job", "handler", metavar="HANDLER", help="Only jobs of this handler."),
    click.option("--reason", metavar="CODE", help="Only those that died for this reason."),
    click.option("--older-than", metavar="TIME", help="Only those that died longer ago: 90, 30s, 10m, 2d."),
    click.option("--newer-than", metavar="TIME", help="Only those that died within this time: 90, 30s, 10m, 2d."),
    click.option("--text", metavar="TEXT", help="Only those with this in their name or in an error."),
)


def options(command: C) -> C:
    """The options that describe dead letters."""
    for option in reversed(_options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Choice:
    """What was asked for; letters that die after the command began are never meant."""

    app: Tenure
    ids: tuple[str, ...]
    filter: Filter

    def pages(self) -> Iterator[list[JobRecord]]:
        return pages(records.dead_letters(self.app), self.filter)

    def letters(self) -> Iterator[JobRecord]:
        """Each of them, as it is now; ids that are not dead are left out."""
        if not self.ids:
            return chain.from_iterable(self.pages())
        return records.dead_among(self.app, self.ids)

    def batches(self) -> Iterator[list[str]]:
        """Their ids, for a verb that takes many."""
        if not self.ids:
            return ([letter.id for letter in page] for page in self.pages())
        return (list(self.ids[first : first + PAGE]) for first in range(0, len(self.ids), PAGE))

    def total(self) -> int | None:
        """How many there are, where that is known without looking at each."""
        if self.ids:
            return len(set(self.ids))
        narrowed = (self.filter.handler, self.filter.reason, self.filter.since, self.filter.text)
        if narrowed != (None,) * 4 or not isinstance(self.app.backend, Counted):
            return None
        counts = self.app.backend.counts()
        return sum(counts[name]["dead"] for name in counts if self.filter.queue in (None, name))


def choice(app: Tenure, ids: Sequence[str] = (), **described: str | None) -> Choice:
    """What the arguments of a command mean, for its app."""
    older = _ago(described.pop("older_than"), "--older-than")
    newer = _ago(described.pop("newer_than"), "--newer-than")
    now = app.clock.now()
    return Choice(
        app,
        tuple(ids),
        Filter(
            **described,
            since=None if newer is None else now - newer,
            before=now + 1 if older is None else now - older,
        ),
    )


def check(ids: Sequence[str], every: bool, **described: str | None) -> None:
    """A verb that changes something needs a clear target."""
    narrowed = any(value is not None for value in described.values())
    if ids and (every or narrowed):
        raise CommandError("name the dead letters by their ids, or describe them; both is not clear")
    if not (ids or every or narrowed):
        raise CommandError("name the dead letters by their ids, describe them with options, or say --all")


def _ago(text: str | None, option: str) -> int | None:
    return None if text is None else microseconds(text, option)
