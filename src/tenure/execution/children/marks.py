"""Marks: shared memory in which a child says what it is running; readable after it was killed.

One slot a job that may run at once: the ticket and when it started, by the clock all processes of a host share,
how far it says it is, and the ticket that the parent wants cancelled.
The parent can withdraw orders that have not started: the child looks before it starts each one.
A mark is taken off only once the report of its job is in the pipe.
"""

import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from math import isnan, nan
from typing import cast

from tenure.definition.progress import Progress

_WITHDRAWN = struct.Struct("<Q")
_PULSE = struct.Struct("<d")
_BLAMED = struct.Struct("<Q")
_BELL = struct.Struct("<Q")
_TICKET = struct.Struct("<Q")
_STARTED = struct.Struct("<ddd")  # when, and no progress yet
_PROGRESS = struct.Struct("<dd")
_SLOT = struct.Struct("<QdddQ")
_PROGRESS_AT = 16
_ASKED_AT = 32
_PULSE_AT = _WITHDRAWN.size
_BLAMED_AT = _PULSE_AT + _PULSE.size
_BELL_AT = _BLAMED_AT + _BLAMED.size
_SLOTS_AT = _BELL_AT + _BELL.size


class Marks:
    """The same few bytes mapped into parent and child."""

    def __init__(self, slots: int, descriptor: int | None = None) -> None:
        size = _SLOTS_AT + slots * _SLOT.size
        self.slots = slots
        self.descriptor = _shared_memory(size) if descriptor is None else descriptor
        self._map = mmap.mmap(self.descriptor, size)
        self._barrier = threading.Lock()

    def begin(self, slot: int, ticket: int) -> bool:
        """Child: this ticket runs now; False when its order was withdrawn, and it must not run."""
        # First the mark, then the look: the parent does the opposite, so that one of them sees the other.
        offset = _SLOTS_AT + slot * _SLOT.size
        _STARTED.pack_into(self._map, offset + _TICKET.size, time.monotonic(), nan, nan)  # before their ticket
        _TICKET.pack_into(self._map, offset, ticket)
        self._publish()
        if ticket > _WITHDRAWN.unpack_from(self._map)[0]:
            return True
        self.end(slot)
        return False

    def end(self, slot: int) -> None:
        """Child: nothing runs in this slot."""
        _TICKET.pack_into(self._map, _SLOTS_AT + slot * _SLOT.size, 0)

    def tell(self, slot: int, ticket: int, done: float, total: float | None) -> None:
        """Child: so far is this ticket, if it still runs here."""
        offset = _SLOTS_AT + slot * _SLOT.size
        if _TICKET.unpack_from(self._map, offset)[0] == ticket:
            _PROGRESS.pack_into(self._map, offset + _PROGRESS_AT, done, nan if total is None else total)

    def asked(self) -> set[int]:
        """Child: the tickets that run and are to be cancelled."""
        return {ticket for ticket, *_, asked in self._slots() if ticket and ticket == asked}

    def is_asked(self, slot: int, ticket: int) -> bool:
        """Child: whether this ticket is to be cancelled."""
        asked: int = _TICKET.unpack_from(self._map, _SLOTS_AT + slot * _SLOT.size + _ASKED_AT)[0]
        return asked == ticket

    def hear_by(self, number: int) -> None:
        """Child: send this signal after `ask`; without one it looks by itself."""
        _BELL.pack_into(self._map, _BELL_AT, number)

    def pulse(self) -> None:
        """Child: the interpreter runs Python code."""
        _PULSE.pack_into(self._map, _PULSE_AT, time.monotonic())

    def blame(self, ticket: int) -> None:
        """Child: this job keeps all the others from going on; 0 when none does."""
        _BLAMED.pack_into(self._map, _BLAMED_AT, ticket)

    def withdraw(self, up_to: int) -> None:
        """Parent: orders up to this ticket that have not started must not start."""
        _WITHDRAWN.pack_into(self._map, 0, up_to)
        self._publish()

    def running(self) -> dict[int, float]:
        """Tickets that have started and when; some may have been reported since."""
        return {ticket: started for ticket, started, *_ in self._slots() if ticket}

    def progress(self) -> dict[int, Progress]:
        """How far the tickets are that have said so."""
        told = [(ticket, done, total) for ticket, _, done, total, _ in self._slots() if ticket and not isnan(done)]
        return {ticket: Progress(done, None if isnan(total) else total) for ticket, done, total in told}

    def ask(self, ticket: int) -> None:
        """Parent: this ticket is to be cancelled, if it runs."""
        for slot, (running, *_) in enumerate(self._slots()):
            if running == ticket:
                _TICKET.pack_into(self._map, _SLOTS_AT + slot * _SLOT.size + _ASKED_AT, ticket)

    def bell(self) -> int:
        """The signal by which the child is told to look at what it was asked; 0 for none."""
        number: int = _BELL.unpack_from(self._map, _BELL_AT)[0]
        return number

    def last_pulse(self) -> float:
        pulse: float = _PULSE.unpack_from(self._map, _PULSE_AT)[0]
        return pulse

    def blamed(self) -> int:
        ticket: int = _BLAMED.unpack_from(self._map, _BLAMED_AT)[0]
        return ticket

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)

    def _slots(self) -> Iterator[tuple[int, float, float, float, int]]:
        return cast("Iterator[tuple[int, float, float, float, int]]", _SLOT.iter_unpack(self._map[_SLOTS_AT:]))

    def _publish(self) -> None:
        """A processor may read ahead of its own writes, but not across the locked instruction of a lock."""
        with self._barrier:
            pass


def _shared_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tenure-marks")
    else:
        with tempfile.TemporaryFile() as file:  # it has no name, and lives as long as somebody holds it
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
