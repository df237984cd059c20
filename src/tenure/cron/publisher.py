"""TickPublisher: writes ticks to the ledger and puts their jobs on the queue."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tenure.backends.contract import Backend
from tenure.backends.job_filter import failure_text
from tenure.backends.ledger import Ledger, Note, TickRecord, is_by_hand
from tenure.backends.messages import Message, enqueued_events
from tenure.backends.parts import JobArchive
from tenure.backends.records import FAILED_RUN, JobRecord
from tenure.clock import MICROSECOND
from tenure.cron.schedule import DueTick
from tenure.definition.job import Job
from tenure.events import END_STATES, Listeners, Tick, TickFailed, TickSkipped, TickStarted, TickSucceeded

_JOB_LOST_AFTER = 3600 * MICROSECOND  # a tick's job that the backend does not know after this time was deleted


class TickPublisher:
    """If ledger and queue are in one database, both are written in one step, else one after the other."""

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        seal: Callable[[Job], Message],
        run: Callable[[Job], JobRecord],
        inline_runs: JobArchive | None,
        listeners: Listeners,
    ) -> None:
        """`run` runs a job in this process and returns its record, which `inline_runs` keeps."""
        self._backend = backend
        self._ledger = ledger
        self._seal = seal
        self.run = run
        self._inline_runs = inline_runs
        self._listeners = listeners
        self._booking = ledger.booking if backend.ledger is ledger else None

    def seal(self, due: DueTick, now: int) -> Message:
        """The message of a tick, delayed if the tick's jitter is not over; raises if the job could never run."""
        message = self._seal(due.schedule.occurrence(due.tick))
        due_at = due.schedule.due_at(due.tick)
        is_early = due_at > now and not is_by_hand(due.tick)  # the clock of who runs it by hand may be ahead
        return replace(message, due=due_at) if is_early else message

    def enter(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> set[str]:
        """Record the ticks that the ledger does not know and put their messages; returns the ids of the new ones."""
        if self._booking is not None:
            new = self._booking.book(ticks, messages)
            self._emit_enqueued([message for message in messages if message.id in new])
            self._emit_started([tick for tick in ticks if tick.id in new and tick.state == "enqueued"])
            return new
        intended = [replace(tick, state="intended") if tick.state == "enqueued" else tick for tick in ticks]
        new = self._ledger.enter(intended)
        self.promote(ticks, [message for message in messages if message.id in new])
        return new

    def promote(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> None:
        """Put the messages of ticks that are recorded but not enqueued yet, and note them as enqueued."""
        if self._booking is not None:
            new = started = self._booking.promote(messages)
        elif messages:
            new = set(self._backend.put(messages))  # the backend stores an id once, even if it is put twice
            started = {each.id for each in self._ledger.note([Note(message.id, "enqueued") for message in messages])}
        else:
            return
        self._emit_enqueued([message for message in messages if message.id in new])
        self._emit_started([tick for tick in ticks if tick.id in started])

    def end_inline(self, note: Note, record: JobRecord | None) -> None:
        """Note the end of a tick that ran in this process, and keep the record of its job, if there is one."""
        if record is not None and self._inline_runs is not None:
            self._inline_runs.save([record])
        self.note([note])

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        """Change the states of ticks, and emit an event for each that has ended; returns the changed ticks."""
        changed = self._ledger.note(notes) if notes else []
        for record in changed:
            if event := end_event(record):
                self.emit(event)
        return changed

    def emit(self, event: Tick) -> None:
        self._listeners.emit(event)

    def _emit_started(self, ticks: Sequence[TickRecord]) -> None:
        for tick in ticks if self._listeners else ():
            self.emit(TickStarted(tick.schedule, tick.tick, tick.id))

    def _emit_enqueued(self, messages: Sequence[Message]) -> None:
        for event in enqueued_events(messages) if self._listeners else ():
            self._listeners.emit(event)

    def find_ended(self, ticks: Sequence[TickRecord]) -> list[Note]:
        """Notes on those of these ticks whose jobs have ended without a note; asks the backend for each job."""
        if not ticks or self._backend.jobs is None:
            return []
        latest = self._ledger.time() - _JOB_LOST_AFTER
        notes: list[Note] = []
        for tick in ticks:
            record = self._backend.jobs.find(tick.id)
            if record is not None:
                notes += [end_note(record)] if record.state in END_STATES else []
            elif tick.noted_at < latest:
                notes.append(Note(tick.id, "failed", "the backend no longer knows its job"))
        return notes


def end_event(record: TickRecord) -> Tick | None:
    """The event that a tick has ended; None while it is open."""
    if record.state == "succeeded":
        return TickSucceeded(record.schedule, record.tick, record.id, _seconds(record))
    if record.state == "failed":
        return TickFailed(record.schedule, record.tick, record.id, record.why, _seconds(record))
    return TickSkipped(record.schedule, record.tick, record.why) if record.state == "skipped" else None


def _seconds(record: TickRecord) -> float | None:
    return (record.noted_at - record.entered_at) / MICROSECOND if record.entered_at else None


def end_note(record: JobRecord) -> Note:
    """The note on the tick of a job that has ended."""
    if record.state == "done":
        return Note(record.id, "succeeded")
    if record.state == FAILED_RUN and record.failures:
        return Note(record.id, "failed", failure_text(record.failures[-1]))
    return Note(record.id, "failed", record.reason or record.state)
