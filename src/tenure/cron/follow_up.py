"""FollowUp: moves on the ticks in the ledger that have not ended; the first scheduler to find one does it.

Several schedulers may take the same step at once: the backend stores a job once, the ledger changes a state once.
"""

from collections.abc import Callable, Mapping, Sequence

from tenure.backends.ledger import Ledger, Note, TickRecord
from tenure.backends.messages import Message
from tenure.clock import MICROSECOND
from tenure.cron.decision import dependency_ids
from tenure.cron.publisher import TickPublisher
from tenure.cron.schedule import DueTick, Schedule
from tenure.errors import TenureError
from tenure.events import TickStarted

_PAGE = 500
_CHECKED_JOBS = 50  # jobs looked up at each check: each costs a read, and with a backlog most have not ended
_CHECK_INTERVAL = 30 * MICROSECOND
_STALE_INTENT = 5 * MICROSECOND  # an intent older than this has no scheduler that still works on it
_MISSING_NOTE = 30 * MICROSECOND  # a job that ended may have no note after this time: look it up
_ORPHAN_AGE = 86_400 * MICROSECOND
_MAX_INLINE_SECONDS = 3600.0  # how long an inline run without a timeout may take

RunInline = Callable[[Schedule, int], None]  # runs one tick of a schedule in this process


class FollowUp:
    """Puts jobs that were not put, releases ticks that wait, and closes ticks whose end has no note."""

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        ledger: Ledger,
        publisher: TickPublisher,
        decide: Callable[[Sequence[DueTick], int], list[TickRecord]],
        run_inline: RunInline | None,
    ) -> None:
        """`decide` returns the state that each tick should have now; `run_inline` runs a tick in this process."""
        self._schedules = schedules
        self._ledger = ledger
        self._publisher = publisher
        self._decide = decide
        self._run_inline = run_inline
        self._check_at = 0

    def run(self, now: int) -> None:
        self._put(self._ledger.unended(["intended"], before=now - _STALE_INTENT, limit=_PAGE), now)
        waiting = self._ledger.unended(["waiting"], before=now + MICROSECOND, limit=_PAGE)
        if waiting:
            self._release(waiting, now)
        if now >= self._check_at or now < self._check_at - 2 * _CHECK_INTERVAL:
            self._check_at = now + _CHECK_INTERVAL
            self._expire_orphans(now)
            silent = self._ledger.unended(["enqueued", "running"], before=now - _MISSING_NOTE, limit=_CHECKED_JOBS)
            self.close_ended(silent, now)

    def close_ended(self, records: Sequence[TickRecord], now: int | None = None) -> list[TickRecord]:
        """Note the ends of ticks that ended without a note; returns the ticks that are still open."""
        notes = self._publisher.find_ended([record for record in records if record.state == "enqueued"])
        moment = self._ledger.time() if now is None else now
        for record in records:
            schedule = self._schedules.get(record.schedule)
            longest = (schedule.job.timeout if schedule else None) or _MAX_INLINE_SECONDS
            if record.state == "running" and moment > record.noted_at + (longest + 60) * MICROSECOND:
                notes.append(Note(record.id, "failed", "the scheduler that ran it has vanished"))
        self._publisher.note(notes)
        ended = {note.id for note in notes}
        return [record for record in records if record.id not in ended]

    def _expire_orphans(self, now: int) -> None:
        """Skip ticks that have been open for a day and whose schedule no longer exists."""
        old = self._ledger.unended(["intended", "waiting"], before=now - _ORPHAN_AGE, limit=_PAGE)
        orphans = [record for record in old if record.schedule not in self._schedules]
        self._publisher.note([Note(record.id, "skipped", "its schedule no longer exists") for record in orphans])

    def _release(self, records: Sequence[TickRecord], now: int) -> None:
        """Decide again about ticks that wait."""
        ordered = sorted(records, key=lambda record: record.tick)
        due = [DueTick(schedule, each.tick) for each in ordered if (schedule := self._schedules.get(each.schedule))]
        needed = [record for each in due for record in self._enqueued_dependencies(each)]
        self.close_ended(list({record.id: record for record in needed}.values()), now)
        decided = self._decide(due, now)
        skipped = [record for record in decided if record.state == "skipped"]
        self._publisher.note([Note(record.id, record.state, record.why) for record in skipped])
        self._put([record for record in decided if record.state == "enqueued"], now)
        self._start([(each, record) for each, record in zip(due, decided, strict=True) if record.state == "running"])
        if len(records) == _PAGE:  # a new note moves those that still wait to the end, so that others get a turn
            waiting = [record for record in decided if record.state == "waiting"]
            self._ledger.note([Note(record.id, "waiting", record.why) for record in waiting])

    def _enqueued_dependencies(self, due: DueTick) -> list[TickRecord]:
        found = self._ledger.known(list(dependency_ids(due.schedule, due.tick).values()))
        return [record for record in found.values() if record.state == "enqueued"]

    def _start(self, inline: Sequence[tuple[DueTick, TickRecord]]) -> None:
        """Run the ticks that the ledger gives to this scheduler."""
        if self._run_inline is None or not inline:
            return
        mine = {record.id for record in self._ledger.note([Note(record.id, "running") for _, record in inline])}
        for each, record in inline:
            if record.id in mine:
                self._publisher.emit(TickStarted(record.schedule, record.tick, record.id))
                self._run_inline(each.schedule, each.tick)

    def _put(self, records: Sequence[TickRecord], now: int) -> None:
        """Put the jobs of these ticks."""
        messages: list[Message] = []
        failures: list[Note] = []
        for record in records:
            schedule = self._schedules.get(record.schedule)
            if schedule is None:
                continue  # it belongs to another release, which may still run or come back
            try:
                messages.append(self._publisher.seal(DueTick(schedule, record.tick), now))
            except TenureError as error:
                failures.append(Note(record.id, "failed", str(error)))
        if messages:
            self._publisher.promote(records, messages)
        self._publisher.note(failures)
