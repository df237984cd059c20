"""Bounds: when a worker that ends by itself is done, counted across its lanes."""

import threading
from collections import Counter

from tenure.events import Status
from tenure.worker.holdings import Holdings
from tenure.worker.terms import Terms, ran


class Bounds:
    """A burst is over when every lane has found nothing since anything was last held: a job may enqueue another."""

    def __init__(self, terms: Terms, lanes: int, holdings: Holdings, tally: Counter[Status]) -> None:
        self.ends_when_empty = terms.burst
        self._most = terms.most
        self._lanes = lanes
        self._holdings = holdings
        self._tally = tally
        self._lock = threading.Lock()
        self._claimed = 0
        self._found_nothing: dict[object, int] = {}

    @property
    def are_shared(self) -> bool:
        return self._lanes > 1

    def drain(self) -> None:
        """From now on end when nothing is ready or in flight."""
        self.ends_when_empty = True

    def are_reached(self) -> bool:
        if self._most is not None and ran(self._tally) >= self._most:
            return True
        return self.ends_when_empty and len(self._found_nothing) == self._lanes and not self._is_news()

    def claim(self, wanted: int) -> int:
        """How many of these may be leased; given back with `unclaim`, once what was leased is held."""
        if self._most is None:
            return wanted
        with self._lock:
            unsettled = len(self._holdings) + self._claimed  # looked at first: what is settled meanwhile counts twice
            claimed = max(0, min(wanted, self._most - unsettled - ran(self._tally)))
            self._claimed += claimed
        return claimed

    def unclaim(self, count: int) -> None:
        if self._most is not None:
            with self._lock:
                self._claimed -= count

    def before_looking(self) -> int | None:
        """What to tell `found_nothing` when the lease that follows is empty; None while a job may bring another."""
        granted = self._holdings.granted
        return None if len(self._holdings) else granted

    def found_nothing(self, lane: object, before: int | None) -> None:
        if before is not None:
            self._found_nothing[lane] = before

    def has_nothing(self, lane: object) -> bool:
        """Whether this lane has found nothing, and nothing was granted to any lane since."""
        return self.ends_when_empty and self._found_nothing.get(lane) == self._holdings.granted

    def _is_news(self) -> bool:
        return any(granted != self._holdings.granted for granted in list(self._found_nothing.values()))
