"""Tending: what is written in the ledger and has not ended is seen to, by whichever scheduler looks first."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from tenure.backends.contract import Message
from tenure.backends.ledger import Ledger, Note, TickRecord
from tenure.clock import MICROSECOND
from tenure.cron.agenda import Due
from tenure.cron.decision import ids_needed
from tenure.cron.desk import Desk
from tenure.cron.outcomes import ending
from tenure.cron.schedule import Schedule
from tenure.errors import TenureError

logger = logging.getLogger(__name__)

_PAGE = 500
_AUDITED = 50  # jobs looked at each time: with a backlog most have not ended, and asking costs
_STALE = 5 * MICROSECOND  # since when an intent was given up by whoever had it
_UNTOLD = 30 * MICROSECOND  # since when nobody may have told how a job ended
_EVERY = 30 * MICROSECOND
_FORSAKEN = 86_400 * MICROSECOND
_LONGEST = 3600.0  # seconds that an inline run without a timeout may take


RunInline = Callable[[Schedule, int], None]


class Judge(Protocol):
    """Who decides about ticks."""

    def find(self, name: str) -> Schedule | None: ...

    def judge(self, due: Sequence[Due], now: int) -> list[TickRecord]: ...

    def seal(self, due: Due, now: int) -> Message: ...

    @property
    def run_inline(self) -> RunInline | None: ...


class Tending:
    """Every step may be taken by several schedulers at once: a job is stored once, a state changes once."""

    def __init__(self, ledger: Ledger, desk: Desk, judge: Judge) -> None:
        self._ledger = ledger
        self._desk = desk
        self._judge = judge
        self._audit_at = 0

    def tend(self, now: int) -> None:
        self._put(self._ledger.unended(["intended"], before=now - _STALE, limit=_PAGE), now)
        waiting = self._ledger.unended(["waiting"], before=now + MICROSECOND, limit=_PAGE)
        if waiting:
            self._release(waiting, now)
        if now >= self._audit_at or now < self._audit_at - 2 * _EVERY:
            self._audit_at = now + _EVERY
            self._forsake(now)
            self.settle(self._ledger.unended(["enqueued", "running"], before=now - _UNTOLD, limit=_AUDITED), now)

    def _forsake(self, now: int) -> None:
        """End what has waited for long and whose schedule is gone: no release that knew it has come back."""
        old = self._ledger.unended(["intended", "waiting"], before=now - _FORSAKEN, limit=_PAGE)
        gone = [record for record in old if self._judge.find(record.schedule) is None]
        self.note([Note(record.id, "skipped", "its schedule is not known any more") for record in gone])

    def settle(self, records: Sequence[TickRecord], now: int | None = None) -> list[TickRecord]:
        """Note what has ended without a word, and return the rest."""
        notes = self._desk.endings([record for record in records if record.state == "enqueued"])
        moment = self._ledger.time() if now is None else now
        for record in records:
            schedule = self._judge.find(record.schedule)
            limit = (schedule.job.timeout if schedule else None) or _LONGEST
            if record.state == "running" and moment > record.noted_at + (limit + 60) * MICROSECOND:
                notes.append(Note(record.id, "failed", "the scheduler that ran it has vanished"))
        self.note(notes)
        over = {note.id for note in notes}
        return [record for record in records if record.id not in over]

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        """Change states, and tell of what has ended."""
        changed = self._ledger.note(notes) if notes else []
        for record in changed:
            if event := ending(record):
                self._desk.tell(event)
        return changed

    def _release(self, records: Sequence[TickRecord], now: int) -> None:
        """Decide again about what waits."""
        ordered = sorted(records, key=lambda record: record.tick)
        due = [Due(schedule, each.tick) for each in ordered if (schedule := self._judge.find(each.schedule))]
        needed = [record for each in due for record in self._unfinished(each)]
        self.settle(list({record.id: record for record in needed}.values()), now)
        judged = self._judge.judge(due, now)
        self.note([Note(record.id, record.state, record.why) for record in judged if record.state == "skipped"])
        self._put([record for record in judged if record.state == "enqueued"], now)
        self._run([(each, record) for each, record in zip(due, judged, strict=True) if record.state == "running"])
        if len(records) == _PAGE:  # those that still wait go to the end, so that others are looked at
            self._ledger.note(
                [Note(record.id, "waiting", record.why) for record in judged if record.state == "waiting"]
            )

    def _run(self, inline: Sequence[tuple[Due, TickRecord]]) -> None:
        run = self._judge.run_inline
        if run is not None and inline:
            mine = {record.id for record in self._ledger.note([Note(record.id, "running") for _, record in inline])}
            for each, record in inline:
                if record.id in mine:
                    run(each.schedule, each.tick)

    def _unfinished(self, due: Due) -> list[TickRecord]:
        found = self._ledger.known(list(ids_needed(due.schedule, due.tick).values()))
        return [record for record in found.values() if record.state == "enqueued"]

    def _put(self, records: Sequence[TickRecord], now: int) -> None:
        """Put the jobs of these ticks."""
        messages: list[Message] = []
        failures: list[Note] = []
        for record in records:
            schedule = self._judge.find(record.schedule)
            if schedule is None:
                continue  # of another release, which is still there or will be back
            try:
                messages.append(self._judge.seal(Due(schedule, record.tick), now))
            except TenureError as error:
                failures.append(Note(record.id, "failed", str(error)))
        if messages:
            self._desk.promote(messages)
        self.note(failures)
