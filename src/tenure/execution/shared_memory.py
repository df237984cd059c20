"""Memory that a parent and its child share; the parent can read it after the child was killed.

It has one slot for each job that may run at once. A slot holds the ticket of the job, when the job started (by the
monotonic clock, which all processes of a host share), its progress, and the ticket that the parent wants cancelled.
The parent can withdraw orders that have not started: the child checks this before it starts each one.
The child clears a slot only after it has written the report of the job to the pipe.
The parent writes how long the leases of its jobs last. A child whose parent is stopped ends its jobs by itself then.
"""

import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from math import inf, isnan, nan
from typing import cast

from tenure.definition.context import Progress

_WITHDRAWN = struct.Struct("<Q")
_HEARTBEAT = struct.Struct("<d")
_BLOCKING_TICKET = struct.Struct("<Q")
_CANCEL_SIGNAL = struct.Struct("<Q")
_LEASES_END = struct.Struct("<d")
_GAVE_UP = struct.Struct("<Q")
_TICKET = struct.Struct("<Q")
_STARTED = struct.Struct("<ddd")  # the time, and no progress yet
_PROGRESS = struct.Struct("<dd")
_SLOT = struct.Struct("<QdddQ")
_PROGRESS_AT = 16
_CANCEL_AT = 32
_HEARTBEAT_AT = _WITHDRAWN.size
_BLOCKING_TICKET_AT = _HEARTBEAT_AT + _HEARTBEAT.size
_CANCEL_SIGNAL_AT = _BLOCKING_TICKET_AT + _BLOCKING_TICKET.size
_LEASES_END_AT = _CANCEL_SIGNAL_AT + _CANCEL_SIGNAL.size
_GAVE_UP_AT = _LEASES_END_AT + _LEASES_END.size
_SLOTS_AT = _GAVE_UP_AT + _GAVE_UP.size


class SharedMemory:
    """The same few bytes mapped into parent and child. Each method says which of the two calls it."""

    def __init__(self, slots: int, descriptor: int | None = None) -> None:
        size = _SLOTS_AT + slots * _SLOT.size
        self.slots = slots
        self.descriptor = _create(size) if descriptor is None else descriptor
        self._map = mmap.mmap(self.descriptor, size)
        if descriptor is None:
            self.set_leases_end(inf)
        self._barrier = threading.Lock()

    def start(self, slot: int, ticket: int) -> bool:
        """Child: this ticket runs from now on; False if its order was withdrawn or its lease ended: it must not run."""
        # The child writes first and then reads. The parent does the same (`withdraw`, then `running`), so that at
        # least one of them sees what the other wrote.
        offset = _SLOTS_AT + slot * _SLOT.size
        now = time.monotonic()
        _STARTED.pack_into(self._map, offset + _TICKET.size, now, nan, nan)  # before the ticket
        _TICKET.pack_into(self._map, offset, ticket)
        self._publish()
        if ticket > _WITHDRAWN.unpack_from(self._map)[0] and now < self.leases_end():
            return True
        self.clear(slot)
        return False

    def clear(self, slot: int) -> None:
        """Child: no job runs in this slot."""
        _TICKET.pack_into(self._map, _SLOTS_AT + slot * _SLOT.size, 0)

    def set_progress(self, slot: int, ticket: int, done: float, total: float | None) -> None:
        """Child: the progress of this ticket, if it still runs in this slot."""
        offset = _SLOTS_AT + slot * _SLOT.size
        if _TICKET.unpack_from(self._map, offset)[0] == ticket:
            _PROGRESS.pack_into(self._map, offset + _PROGRESS_AT, done, nan if total is None else total)

    def cancel_requests(self) -> set[int]:
        """Child: the tickets that run and are to be cancelled."""
        return {ticket for ticket, *_, cancel in self._slots() if ticket and ticket == cancel}

    def is_cancel_requested(self, slot: int, ticket: int) -> bool:
        """Child: whether this ticket is to be cancelled."""
        cancel: int = _TICKET.unpack_from(self._map, _SLOTS_AT + slot * _SLOT.size + _CANCEL_AT)[0]
        return cancel == ticket

    def set_cancel_signal(self, number: int) -> None:
        """Child: the parent sends this signal after `request_cancel`; without one the child polls."""
        _CANCEL_SIGNAL.pack_into(self._map, _CANCEL_SIGNAL_AT, number)

    def beat(self) -> None:
        """Child: the interpreter runs Python code."""
        _HEARTBEAT.pack_into(self._map, _HEARTBEAT_AT, time.monotonic())

    def set_blocking_ticket(self, ticket: int) -> None:
        """Child: this job blocks the event loop for all others; 0 if none does."""
        _BLOCKING_TICKET.pack_into(self._map, _BLOCKING_TICKET_AT, ticket)

    def leases_end(self) -> float:
        """Child: when its jobs must have stopped, by the monotonic clock, unless the parent writes a later time."""
        moment: float = _LEASES_END.unpack_from(self._map, _LEASES_END_AT)[0]
        return moment

    def give_up(self) -> None:
        """Child: it ends itself, because the leases of its jobs end."""
        _GAVE_UP.pack_into(self._map, _GAVE_UP_AT, 1)

    def set_leases_end(self, moment: float) -> None:
        """Parent: the leases of the jobs were renewed, or jobs were leased."""
        _LEASES_END.pack_into(self._map, _LEASES_END_AT, moment)

    def gave_up(self) -> bool:
        """Parent: whether the child ended itself because the leases of its jobs ended."""
        return bool(_GAVE_UP.unpack_from(self._map, _GAVE_UP_AT)[0])

    def withdraw(self, up_to: int) -> None:
        """Parent: orders up to this ticket that have not started must not start."""
        _WITHDRAWN.pack_into(self._map, 0, up_to)
        self._publish()

    def running(self) -> dict[int, float]:
        """The tickets that have started, and when; some may have been reported since."""
        return {ticket: started for ticket, started, *_ in self._slots() if ticket}

    def progress(self) -> dict[int, Progress]:
        """Parent: the progress of the tickets that have reported any."""
        found = [(ticket, done, total) for ticket, _, done, total, _ in self._slots() if ticket and not isnan(done)]
        return {ticket: Progress(done, None if isnan(total) else total) for ticket, done, total in found}

    def request_cancel(self, ticket: int) -> None:
        """Parent: this ticket is to be cancelled, if it runs."""
        for slot, (running, *_) in enumerate(self._slots()):
            if running == ticket:
                _TICKET.pack_into(self._map, _SLOTS_AT + slot * _SLOT.size + _CANCEL_AT, ticket)

    def cancel_signal(self) -> int:
        """Parent: the signal that makes the child check its cancel requests; 0 for none."""
        number: int = _CANCEL_SIGNAL.unpack_from(self._map, _CANCEL_SIGNAL_AT)[0]
        return number

    def last_heartbeat(self) -> float:
        """Parent: when the child last ran Python code, by the monotonic clock."""
        moment: float = _HEARTBEAT.unpack_from(self._map, _HEARTBEAT_AT)[0]
        return moment

    def blocking_ticket(self) -> int:
        """Parent: the job that blocks the child's event loop; 0 for none."""
        ticket: int = _BLOCKING_TICKET.unpack_from(self._map, _BLOCKING_TICKET_AT)[0]
        return ticket

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)

    def _slots(self) -> Iterator[tuple[int, float, float, float, int]]:
        return cast("Iterator[tuple[int, float, float, float, int]]", _SLOT.iter_unpack(self._map[_SLOTS_AT:]))

    def _publish(self) -> None:
        """A processor may read before its own writes are visible, but not across the locked instruction of a lock."""
        with self._barrier:
            pass


class SharedMemoryLink:
    """Child: the link between one job and the parent process.

    It is valid for one ticket: code that a job leaves running cannot report for the next job in its slot.
    """

    __slots__ = ("_memory", "_slot", "_ticket")

    def __init__(self, memory: SharedMemory, slot: int, ticket: int) -> None:
        self._memory = memory
        self._slot = slot
        self._ticket = ticket

    @property
    def cancelled(self) -> bool:
        return self._memory.is_cancel_requested(self._slot, self._ticket)

    def report(self, done: float, total: float | None) -> None:
        self._memory.set_progress(self._slot, self._ticket, done, total)


def _create(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tenure-shared-memory")
    else:
        with tempfile.TemporaryFile() as file:  # it has no name, and exists as long as a process has it open
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
