"""ClaimCursor: where the last claim from a queue ended, so that the next claim skips the deleted rows before it.

Deleted rows stay in the index until the server removes them, and an old snapshot of another client can delay that.
A cursor hides jobs that come back or arrive before it, so it does not live long: the dialect claims from the start of
the queue after every short claim, after every return, and as often as that costs at most a tenth of the time.
"""

import time

START = (-32768, 0)
Place = tuple[int, int]


class ClaimCursor:
    """One place for each queue."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Place, float]] = {}

    def start_of(self, queue: str) -> Place:
        """Where the next claim starts."""
        place, until = self._places.get(queue, (START, 0.0))
        return place if time.monotonic() < until else START

    def move_to(self, queue: str, last: Place, started: float, from_start: bool) -> None:
        """A full claim ended at `last`."""
        now = time.monotonic()
        _, until = self._places.get(queue, (START, 0.0))
        self._places[queue] = (last, now + 10 * (now - started) if from_start else until)

    def drop(self, *queues: str) -> None:
        """The next claims from these queues start at the first row."""
        for queue in queues:
            self._places.pop(queue, None)

    def drop_all(self) -> None:
        self._places.clear()
