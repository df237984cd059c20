"""The dead letters that all viewers share: at most 10 000 of them, without their messages, and the group of each.

A request gets the letters that were read last; a thread reads them again when they may have changed. The first
request reads only the newest. If a user replays or deletes letters, they leave the list at once, without a read.
The slower the backend, the rarer it is read: a broker that cannot list its dead letters reads all of them each time.
"""

import hashlib
import heapq
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct, structs

from tenure.app.dashboard.core import Sources
from tenure.backends.contract import Backend, required
from tenure.backends.job_filter import DEAD_LETTER_PAGE
from tenure.backends.parts import Jobs
from tenure.backends.records import JobRecord
from tenure.errors import TenureError

logger = logging.getLogger(__name__)

MAX_LETTERS = 10_000  # read for one page; 10 000 with a traceback each take SQLite 0.5 s
FIRST_LETTERS = 500  # read while the first request waits
MIN_AGE_SECONDS = 2.0  # letters that were read more recently are not read again
_MAX_AGE_SECONDS = 60.0  # after this time they are read again even if nothing seems to have changed
_COST_SHARE = 20  # a read of d seconds is not repeated before 20 d: reading takes at most 5 % of the time
_UNKNOWN = object()  # the state of letters that must be read again
_MAX_COMPARED = 300  # characters of an error that decide about its group

# Every attempt of an expression begins at another word or quote, so they take time in proportion to the text.
_QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”")
_WITH_DIGIT = re.compile(r"(?<![\w-])(?=[\w-]*\d)[\w-]+(?:[.,:]\d+)*")


class Letter(Struct, frozen=True):
    """A dead letter as pages need it: `record` has its last failure, without the traceback, and no message.

    `by_error` and `by_handler` are the keys of the groups that it belongs to.
    """

    record: JobRecord
    by_error: str
    by_handler: str

    @property
    def died(self) -> int:
        """When it died, in UTC microseconds."""
        return self.record.finished_at or 0

    @property
    def kind(self) -> str:
        """The class of its last error, or the reason of a letter without one."""
        record = self.record
        return record.failures[-1].type if record.failures else record.reason or "unknown"

    def is_in(self, group: str) -> bool:
        return group in (self.by_error, self.by_handler)


def letter_of(record: JobRecord) -> Letter:
    failures = tuple(structs.replace(failure, trace=None, run=None) for failure in record.failures[-1:])
    slim = structs.replace(record, failures=failures, body=None, output=None, run=None)
    kind, message = (failures[0].type, failures[0].message) if failures else (record.reason or "", "")
    return Letter(slim, _key("error", kind, alike(message), record.handler), _key("handler", record.handler))


def alike(message: str) -> str:
    """What equal errors have in common: the first line without quoted values and without words that have digits.

    A message that is only a quoted value, such as that of a KeyError, is what it is about, and stays.
    """
    line = message.partition("\n")[0][:_MAX_COMPARED].strip()
    if _QUOTED.fullmatch(line):
        return line
    return _WITH_DIGIT.sub("#", _QUOTED.sub("'…'", line))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


class LetterSnapshot(Struct, frozen=True, kw_only=True):
    """The letters that were read, the newest first; if there were more than MAX_LETTERS, the rest `is_cut`.

    With `has_newest` the ones read are the newest, else the oldest.
    """

    letters: tuple[Letter, ...]
    is_cut: bool = False
    has_newest: bool = True


def read_letters(backend: Backend, limit: int = MAX_LETTERS) -> LetterSnapshot:
    """Up to `limit` letters: the newest, or the oldest on a broker, which cannot list them backwards."""
    if backend.jobs is not None:
        found = [letter_of(record) for record in islice(_newest_first(backend.jobs), limit + 1)]
        return LetterSnapshot(letters=tuple(found[:limit]), is_cut=len(found) > limit)
    letters = required(backend.dead_letters, "dead letters")
    found = [letter_of(record) for record in letters.page(limit=limit + 1)]
    return LetterSnapshot(letters=tuple(reversed(found[:limit])), is_cut=len(found) > limit, has_newest=False)


def _newest_first(jobs: Jobs) -> Iterator[JobRecord]:
    """The dead letters of all queues; of each queue as many pages are read as the caller takes."""
    queues = [_of_queue(jobs, queue) for queue in jobs.queues_with("dead")]
    return heapq.merge(*queues, key=lambda record: -(record.finished_at or 0))


def _of_queue(jobs: Jobs, queue: str) -> Iterator[JobRecord]:
    cursor = None
    while True:
        page, cursor = jobs.page("dead", queue, limit=DEAD_LETTER_PAGE, cursor=cursor)
        yield from page
        if cursor is None:
            return


class LetterIndex:
    """Hands out the letters that were read last, and lets a thread read them again."""

    def __init__(self, read: Callable[[int], LetterSnapshot], state: Callable[[], Any]) -> None:
        """`read` takes a limit; `state` returns a value that is cheap to read, and changes when letters come or go."""
        self._read = read
        self._state = state
        self._snapshot: LetterSnapshot | None = None
        self._known_state: Any = _UNKNOWN
        self._gone: set[str] | None = None  # what actions changed while a read goes on
        self._read_at = self._checked_at = self._cost = 0.0
        self._reading = threading.Lock()
        self._changing = threading.Lock()

    def latest(self) -> LetterSnapshot:
        """The first call reads the newest letters; later calls return at once."""
        snapshot = self._snapshot
        if snapshot is None:
            with self._reading:
                snapshot = self._snapshot or self._refresh(FIRST_LETTERS)
        if self._is_due() and self._reading.acquire(blocking=False):
            threading.Thread(target=self._refresh_if_changed, name="tenure-letters", daemon=True).start()
        return snapshot

    def forget(self, ids: Iterable[str]) -> None:
        """Take the jobs that an action changed out of the letters, which are read again soon: some may die again."""
        gone = set(ids)
        with self._changing:
            if self._gone is not None:
                self._gone |= gone
            before = self._snapshot
            if before is not None:
                self._snapshot = _without(before, gone)
                if len(self._snapshot.letters) < len(before.letters):
                    self._known_state = _UNKNOWN

    def _is_due(self) -> bool:
        pause = 0.0 if self._known_state is _UNKNOWN else self._cost * _COST_SHARE
        return time.monotonic() - self._checked_at >= max(MIN_AGE_SECONDS, pause)

    def _refresh_if_changed(self) -> None:
        """Called with the lock held, which it releases."""
        try:
            is_old = time.monotonic() - self._read_at >= max(_MAX_AGE_SECONDS, self._cost * _COST_SHARE)
            if is_old or self._state() != self._known_state:
                self._refresh(MAX_LETTERS)
            self._checked_at = time.monotonic()
        except TenureError as error:
            logger.warning("the dead letters cannot be read: %s", error)
            self._checked_at = time.monotonic()
        finally:
            self._reading.release()

    def _refresh(self, limit: int) -> LetterSnapshot:
        gone: set[str] = set()
        with self._changing:
            self._gone = gone
        state, started = self._state(), time.monotonic()
        read = self._read(limit)
        is_complete = limit >= MAX_LETTERS or not read.is_cut
        with self._changing:
            self._gone = None
            self._snapshot = snapshot = _without(read, gone)
            is_current = is_complete and len(snapshot.letters) == len(read.letters)
            self._known_state = state if is_current else _UNKNOWN
            self._read_at = time.monotonic()
            self._checked_at = self._read_at if is_complete else 0.0  # the rest is read at once
            self._cost = self._read_at - started
        return snapshot


def _without(snapshot: LetterSnapshot, gone: set[str]) -> LetterSnapshot:
    if not gone:
        return snapshot
    return structs.replace(snapshot, letters=tuple(each for each in snapshot.letters if each.record.id not in gone))


def shared_letters(sources: Sources) -> LetterSnapshot:
    """The letters that all viewers of a dashboard share."""
    return _index(sources).latest()


def forget_letters(sources: Sources, ids: Iterable[str]) -> None:
    """Take letters that an action changed out of those that viewers share."""
    _index(sources).forget(ids)


def _index(sources: Sources) -> LetterIndex:
    backend = sources.app.backend

    def state() -> tuple[Any, ...]:
        counts = tuple((each.name, each.dead) for each in sources.figures.queues)
        return counts, tuple(_newest(backend.jobs)) if backend.jobs is not None else ()

    index: LetterIndex = sources.kept.setdefault(
        "letters", LetterIndex(lambda limit: read_letters(backend, limit), state)
    )
    return index


def _newest(jobs: Jobs) -> Iterator[tuple[str, int | None]]:
    for queue in jobs.queues_with("dead"):
        page, _ = jobs.page("dead", queue, limit=1)
        yield from ((record.id, record.finished_at) for record in page)
