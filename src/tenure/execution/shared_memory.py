"""Memory that a parent and its child share; the parent can read it after the child was killed.

It has one slot for each job that may run at once. A slot holds the ticket of the job, when the job started (by the
monotonic clock, which all processes of a host share), its progress, and the ticket that the parent wants cancelled.
The parent can withdraw orders that have not started: the child checks this before it starts each one.
The child clears a slot only after it has written the report of the job to the pipe.
The parent writes how long the leases of its jobs last. A child whose parent is stopped ends its jobs by itself then.
"""

import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from math import inf, isnan, nan
from time import monotonic

from msgspec import Struct

from tenure.definition.context import Progress

# The memory is an array of words of 8 bytes, each a number or a time: the processor reads and writes a word at once.
_WITHDRAWN, _HEARTBEAT, _BLOCKING_TICKET, _CANCEL_SIGNAL, _LEASES_END, _GAVE_UP = range(6)
_FIRST_SLOT = 6
_STARTED, _DONE, _TOTAL, _CANCEL = range(1, 5)  # the words of a slot after its first, the ticket
_SLOT_WORDS = 5
_WORD_BYTES = 8


class SharedMemory:
    """The same few bytes mapped into parent and child. Each method says which of the two calls it."""

    def __init__(self, slots: int, descriptor: int | None = None) -> None:
        size = (_FIRST_SLOT + slots * _SLOT_WORDS) * _WORD_BYTES
        self.slots = slots
        self.descriptor = _create(size) if descriptor is None else descriptor
        self._map = mmap.mmap(self.descriptor, size)
        self._numbers = memoryview(self._map).cast("Q")
        self._times = memoryview(self._map).cast("d")
        if descriptor is None:
            self.set_leases_end(inf)
        self._barrier = threading.Lock()

    def start(self, slot: int, ticket: int) -> bool:
        """Child: this ticket runs from now on; False if its order was withdrawn or its lease ended: it must not run."""
        # The child writes first and then reads. The parent does the same (`withdraw`, then `running`), so that at
        # least one of them sees what the other wrote.
        at = _FIRST_SLOT + slot * _SLOT_WORDS
        numbers, times = self._numbers, self._times
        times[at + _STARTED] = now = monotonic()  # before the ticket
        times[at + _DONE] = nan
        numbers[at] = ticket
        self._publish()
        if ticket > numbers[_WITHDRAWN] and now < times[_LEASES_END]:
            return True
        self.clear(slot)
        return False

    def clear(self, slot: int) -> None:
        """Child: no job runs in this slot."""
        self._numbers[_FIRST_SLOT + slot * _SLOT_WORDS] = 0

    def set_progress(self, slot: int, ticket: int, done: float, total: float | None) -> None:
        """Child: the progress of this ticket, if it still runs in this slot."""
        at = _FIRST_SLOT + slot * _SLOT_WORDS
        if self._numbers[at] == ticket:
            self._times[at + _TOTAL] = nan if total is None else total
            self._times[at + _DONE] = done

    def cancel_requests(self) -> set[int]:
        """Child: the tickets that run and are to be cancelled."""
        return {ticket for at, ticket in self._used_slots() if ticket == self._numbers[at + _CANCEL]}

    def is_cancel_requested(self, slot: int, ticket: int) -> bool:
        """Child: whether this ticket is to be cancelled."""
        return self._numbers[_FIRST_SLOT + slot * _SLOT_WORDS + _CANCEL] == ticket

    def set_cancel_signal(self, number: int) -> None:
        """Child: the parent sends this signal after `request_cancel`; without one the child polls."""
        self._numbers[_CANCEL_SIGNAL] = number

    def beat(self) -> None:
        """Child: the interpreter runs Python code."""
        self._times[_HEARTBEAT] = monotonic()

    def set_blocking_ticket(self, ticket: int) -> None:
        """Child: this job blocks the event loop for all others; 0 if none does."""
        self._numbers[_BLOCKING_TICKET] = ticket

    def leases_end(self) -> float:
        """Child: when its jobs must have stopped, by the monotonic clock, unless the parent writes a later time."""
        return self._times[_LEASES_END]

    def give_up(self) -> None:
        """Child: it ends itself, because the leases of its jobs end."""
        self._numbers[_GAVE_UP] = 1

    def set_leases_end(self, moment: float) -> None:
        """Parent: the leases of the jobs were renewed, or jobs were leased."""
        self._times[_LEASES_END] = moment

    def gave_up(self) -> bool:
        """Parent: whether the child ended itself because the leases of its jobs ended."""
        return bool(self._numbers[_GAVE_UP])

    def withdraw(self, up_to: int) -> None:
        """Parent: orders up to this ticket that have not started must not start."""
        self._numbers[_WITHDRAWN] = up_to
        self._publish()

    def running(self) -> dict[int, float]:
        """The tickets that have started, and when; some may have been reported since."""
        return {ticket: self._times[at + _STARTED] for at, ticket in self._used_slots()}

    def progress(self) -> dict[int, Progress]:
        """Parent: the progress of the tickets that have reported any."""
        found = [(ticket, self._times[at + _DONE], self._times[at + _TOTAL]) for at, ticket in self._used_slots()]
        return {
            ticket: Progress(done, None if isnan(total) else total) for ticket, done, total in found if not isnan(done)
        }

    def request_cancel(self, ticket: int) -> None:
        """Parent: this ticket is to be cancelled, if it runs."""
        for at, running in self._used_slots():
            if running == ticket:
                self._numbers[at + _CANCEL] = ticket

    def cancel_signal(self) -> int:
        """Parent: the signal that makes the child check its cancel requests; 0 for none."""
        return self._numbers[_CANCEL_SIGNAL]

    def last_heartbeat(self) -> float:
        """Parent: when the child last ran Python code, by the monotonic clock."""
        return self._times[_HEARTBEAT]

    def blocking_ticket(self) -> int:
        """Parent: the job that blocks the child's event loop; 0 for none."""
        return self._numbers[_BLOCKING_TICKET]

    def close(self) -> None:
        self._numbers.release()
        self._times.release()
        self._map.close()
        os.close(self.descriptor)

    def _used_slots(self) -> Iterator[tuple[int, int]]:
        """Where the slots begin that hold a ticket, and the ticket."""
        for at in range(_FIRST_SLOT, _FIRST_SLOT + self.slots * _SLOT_WORDS, _SLOT_WORDS):
            if ticket := self._numbers[at]:
                yield at, ticket

    def _publish(self) -> None:
        """A processor may read before its own writes are visible, but not across the locked instruction of a lock."""
        with self._barrier:
            pass


class SharedMemoryLink(Struct, frozen=True, eq=False, gc=False):
    """Child: the link between one job and the parent process.

    It is valid for one ticket: code that a job leaves running cannot report for the next job in its slot.
    """

    memory: SharedMemory
    slot: int
    ticket: int

    @property
    def cancelled(self) -> bool:
        return self.memory.is_cancel_requested(self.slot, self.ticket)

    def report(self, done: float, total: float | None) -> None:
        self.memory.set_progress(self.slot, self.ticket, done, total)


def _create(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tenure-shared-memory")
    else:
        with tempfile.TemporaryFile() as file:  # it has no name, and exists as long as a process has it open
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
