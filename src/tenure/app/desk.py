"""AppDesk: an app as its scheduler sees it."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tenure.backends.asking import Inspectable, JobRecord
from tenure.backends.contract import Backend, Message
from tenure.backends.ledger import Booking, Ledger, Ledgered, Note, TickRecord
from tenure.clock import MICROSECOND
from tenure.definition.job import Job
from tenure.events import Listeners, Tick

_UNKNOWN = 3600 * MICROSECOND  # since when the job of a tick must be known, or was deleted


class AppDesk:
    """Where ledger and queue are one database both are written at once, else one after the other."""

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        seal: Callable[[Job], Message],
        run: Callable[[Job], object],
        stored: Callable[[list[Message]], None],
        listeners: Listeners,
    ) -> None:
        """`run` runs a job here and now, `stored` is told of messages that were put."""
        self._backend = backend
        self._ledger = ledger
        self.seal = seal
        self._run = run
        self._stored = stored
        self._listeners = listeners
        together = isinstance(backend, Ledgered) and backend.ledger is ledger
        self._booking = ledger if together and isinstance(ledger, Booking) else None

    def enter(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> set[str]:
        if self._booking is not None:
            new = self._booking.book(ticks, messages)
            self._stored([message for message in messages if message.id in new])
            return new
        intended = [replace(tick, state="intended") if tick.state == "enqueued" else tick for tick in ticks]
        new = self._ledger.enter(intended)
        self.promote([message for message in messages if message.id in new])
        return new

    def promote(self, messages: Sequence[Message]) -> None:
        if self._booking is not None:
            new = self._booking.promote(messages)
        elif messages:
            new = set(self._backend.put(messages))  # however often it is put, it is stored once
            self._ledger.note([Note(message.id, "enqueued") for message in messages])
        else:
            return
        self._stored([message for message in messages if message.id in new])

    def run(self, job: Job) -> None:
        self._run(job)

    def endings(self, ticks: Sequence[TickRecord]) -> list[Note]:
        if not ticks or not isinstance(self._backend, Inspectable):
            return []
        latest = self._ledger.time() - _UNKNOWN
        notes: list[Note] = []
        for tick in ticks:
            record = self._backend.find(tick.id)
            if record is not None:
                notes += _ending(record)
            elif tick.noted_at < latest:
                notes.append(Note(tick.id, "failed", "its job is not known any more"))
        return notes

    def tell(self, event: Tick) -> None:
        self._listeners.emit(event)


def _ending(record: JobRecord) -> list[Note]:
    if record.state == "done":
        return [Note(record.id, "succeeded")]
    if record.state in ("dead", "cancelled", "expired"):
        return [Note(record.id, "failed", record.reason or record.state)]
    return []
