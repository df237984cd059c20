"""Arguments that several commands share: durations and times, and options that select jobs and dead letters.

A plain number is a duration in seconds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import click

from tenure.app import Tenure
from tenure.backends.job_filter import DEAD_LETTER_PAGE, JobFilter
from tenure.backends.records import JobRecord
from tenure.cli.errors import CommandError
from tenure.cli.job_ids import resolve_ids
from tenure.cli.queue_names import find_queue
from tenure.clock import MICROSECOND, to_datetime, to_microseconds
from tenure.definition.duration import to_seconds
from tenure.definition.moment import to_instant

at_option = click.option(
    "--at", metavar="TIME", help="Use this time instead of now: 2026-03-29T02:30, 'tomorrow 9:00'."
)


def number_or_text(text: str) -> float | str:
    """A float if the text is a number; the function that uses the duration checks any other text."""
    return float(text) if text.replace(".", "", 1).isdecimal() else text


def parse_seconds(text: str, option: str) -> float:
    return to_seconds(number_or_text(text), option)


def parse_microseconds(text: str, option: str) -> int:
    return round(parse_seconds(text, option) * MICROSECOND)


def describe_duration(text: str) -> str:
    """The duration as the user wrote it; a plain number gets its unit."""
    return f"{text} s" if isinstance(number_or_text(text), float) else text


def parse_time(app: Tenure, text: str | None, option: str = "--at") -> int:
    """A time in UTC microseconds, now if no text; a time without an offset is in the app's time zone."""
    now = app.clock.now()
    if text is None:
        return now
    return to_microseconds(to_instant(number_or_text(text), option, now, app.settings.timezone))


C = TypeVar("C", bound=Callable[..., Any])

ids_argument = click.argument("ids", metavar="ID...", nargs=-1)
all_option = click.option("--all", "select_all", is_flag=True, help="Every dead letter.")
_dead_letter_options = (
    click.option("--queue", metavar="NAME", help="Only this queue."),
    click.option("--job", "handler", metavar="HANDLER", help="Only jobs of this handler."),
    click.option("--reason", metavar="CODE", help="Only those that died for this reason."),
    click.option("--older-than", metavar="TIME", help="Only those that died longer ago: 90, 30s, 10m, 2d."),
    click.option("--newer-than", metavar="TIME", help="Only those that died within this time: 90, 30s, 10m, 2d."),
    click.option("--text", metavar="TEXT", help="Only those with this text in their id, name, reason or an error."),
)


def dead_letter_options(command: C) -> C:
    """Add the options that filter dead letters."""
    for option in reversed(_dead_letter_options):
        command = option(command)
    return command


def check_selection(ids: Sequence[str], select_all: bool, **filters: str | None) -> None:
    """A command that changes dead letters needs ids, or filters, or --all; not ids and filters."""
    has_filters = any(value is not None for value in filters.values())
    if ids and (select_all or has_filters):
        raise CommandError("give the ids of the dead letters, or options that describe them, but not both")
    if not (ids or select_all or has_filters):
        raise CommandError("give the ids of the dead letters, options that describe them, or --all")


def select_dead_letters(app: Tenure, ids: Sequence[str] = (), **filters: Any) -> "DeadLetterSelection":
    """The dead letters that the arguments of a command select; jobs that die later are never included."""
    older = _duration(filters.pop("older_than"), "--older-than")
    newer = _duration(filters.pop("newer_than"), "--newer-than")
    filters["queue"] = filters["queue"] and find_queue(app, filters["queue"])
    now = app.clock.now()
    return DeadLetterSelection(
        app,
        resolve_ids(app, ids),
        JobFilter(
            **filters,
            since=None if newer is None else now - newer,
            before=now + 1 if older is None else now - older,
        ),
    )


@dataclass(frozen=True, slots=True)
class DeadLetterSelection:
    """The dead letters with these ids, or without ids all that the filter matches."""

    app: Tenure
    ids: tuple[str, ...]
    filter: JobFilter

    def letters(self) -> Iterator[JobRecord]:
        """Each dead letter as it is now; ids that are not dead are left out."""
        if not self.ids:
            return chain.from_iterable(self._pages())
        return self.app.dead_letters().get(self.ids)

    def id_batches(self) -> Iterator[list[str]]:
        """The ids in batches, for functions that take many ids."""
        if not self.ids:
            return ([letter.id for letter in page] for page in self._pages())
        return (list(self.ids[first : first + DEAD_LETTER_PAGE]) for first in range(0, len(self.ids), DEAD_LETTER_PAGE))

    def total(self) -> int | None:
        """The number of dead letters, or None if that needs reading each of them."""
        if self.ids:
            return len(set(self.ids))
        narrowing = (self.filter.handler, self.filter.reason, self.filter.since, self.filter.text)
        if narrowing != (None,) * 4 or self.app.backend.queues is None:
            return None
        counts = self.app.backend.queues.counts()
        return sum(counts[name]["dead"] for name in counts if self.filter.queue in (None, name))

    def words(self) -> Sequence[str]:
        """The ids, or the filter, for the audit log."""
        if self.ids:
            return self.ids
        given = {name: getattr(self.filter, name) for name in ("queue", "handler", "reason", "text")}
        since = None if self.filter.since is None else f"since:{to_datetime(self.filter.since):%Y-%m-%dT%H:%M:%SZ}"
        words = [
            *(f"{name}:{value}" for name, value in given.items() if value is not None),
            *([since] if since else []),
        ]
        return words or ["all dead letters"]

    def _pages(self) -> Iterator[list[JobRecord]]:
        return self.app.dead_letters().search(self.filter)


def find_job(app: Tenure, id: str) -> JobRecord:
    """The job with this id, in any state."""
    return app.jobs.record(id)


def state_of(app: Tenure, id: str) -> str | None:
    """The state of a job, or None if it is not known."""
    record = app.parts().find(id)
    return record.state if record else None


def _duration(text: str | None, option: str) -> int | None:
    return None if text is None else parse_microseconds(text, option)
