"""Floors: where the last claim from a queue ended, so that the next one need not walk over what is gone.

Rows that were deleted stay in the index until they are vacuumed, and an old snapshot elsewhere can delay that.
A floor hides what comes back or arrives above it, so it does not live long: a look from the very beginning is
taken after every short claim, after every return, and as often as it costs no more than a tenth of the time.
"""

import time

BEGINNING = (-32768, 0)
Place = tuple[int, int]


class Floors:
    """One for each queue."""

    def __init__(self) -> None:
        self._floors: dict[str, tuple[Place, float]] = {}

    def below(self, queue: str) -> Place:
        """Where to begin looking."""
        place, until = self._floors.get(queue, (BEGINNING, 0.0))
        return place if time.monotonic() < until else BEGINNING

    def raise_to(self, queue: str, last: Place, started: float, from_beginning: bool) -> None:
        """A full claim ended here."""
        now = time.monotonic()
        _, until = self._floors.get(queue, (BEGINNING, 0.0))
        self._floors[queue] = (last, now + 10 * (now - started) if from_beginning else until)

    def drop(self, *queues: str) -> None:
        for queue in queues:
            self._floors.pop(queue, None)
