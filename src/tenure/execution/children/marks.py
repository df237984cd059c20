"""Marks: shared memory in which a child says what it is running; readable after it was killed.

One slot a job that may run at once: the ticket and when it started, by the clock all processes of a host share.
The parent can withdraw orders that have not started: the child looks before it starts each one.
"""

import mmap
import os
import struct
import time

_HEADER = struct.Struct("<Q")
_SLOT = struct.Struct("<Qd")


class Marks:
    """The same few bytes mapped into parent and child."""

    def __init__(self, slots: int, descriptor: int | None = None) -> None:
        size = _HEADER.size + slots * _SLOT.size
        self.slots = slots
        if descriptor is None:
            descriptor = os.memfd_create("tenure-marks")
            os.ftruncate(descriptor, size)
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, size)

    def begin(self, slot: int, ticket: int) -> bool:
        """Child: this ticket runs now; False when its order was withdrawn, and it must not run."""
        # First the mark, then the look: the parent does the opposite, so that one of them sees the other.
        _SLOT.pack_into(self._map, _HEADER.size + slot * _SLOT.size, ticket, time.monotonic())
        if ticket > _HEADER.unpack_from(self._map)[0]:
            return True
        self.end(slot)
        return False

    def end(self, slot: int) -> None:
        """Child: nothing runs in this slot."""
        _SLOT.pack_into(self._map, _HEADER.size + slot * _SLOT.size, 0, 0.0)

    def withdraw(self, up_to: int) -> None:
        """Parent: orders up to this ticket that have not started must not start."""
        _HEADER.pack_into(self._map, 0, up_to)

    def running(self) -> dict[int, float]:
        """Tickets that have started and when; some may have been reported since."""
        found = _SLOT.iter_unpack(self._map[_HEADER.size :])
        return {ticket: started for ticket, started in found if ticket}

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)
