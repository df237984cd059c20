"""Marks: shared memory in which a child says what it is running; readable after it was killed.

One slot a job that may run at once: the ticket and when it started, by the clock all processes of a host share.
The parent can withdraw orders that have not started: the child looks before it starts each one.
A mark is taken off only once the report of its job is in the pipe.
"""

import mmap
import os
import struct
import tempfile
import threading
import time

_WITHDRAWN = struct.Struct("<Q")
_PULSE = struct.Struct("<d")
_BLAMED = struct.Struct("<Q")
_TICKET = struct.Struct("<Q")
_STARTED = struct.Struct("<d")
_SLOT = struct.Struct("<Qd")
_PULSE_AT = _WITHDRAWN.size
_BLAMED_AT = _PULSE_AT + _PULSE.size
_SLOTS_AT = _BLAMED_AT + _BLAMED.size


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
        _STARTED.pack_into(self._map, offset + _TICKET.size, time.monotonic())  # before the ticket it belongs to
        _TICKET.pack_into(self._map, offset, ticket)
        self._publish()
        if ticket > _WITHDRAWN.unpack_from(self._map)[0]:
            return True
        self.end(slot)
        return False

    def end(self, slot: int) -> None:
        """Child: nothing runs in this slot."""
        _TICKET.pack_into(self._map, _SLOTS_AT + slot * _SLOT.size, 0)

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
        found = _SLOT.iter_unpack(self._map[_SLOTS_AT:])
        return {ticket: started for ticket, started in found if ticket}

    def last_pulse(self) -> float:
        pulse: float = _PULSE.unpack_from(self._map, _PULSE_AT)[0]
        return pulse

    def blamed(self) -> int:
        ticket: int = _BLAMED.unpack_from(self._map, _BLAMED_AT)[0]
        return ticket

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)

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
