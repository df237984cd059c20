"""Outage: a circuit breaker around the backend, shared by the lanes of a worker, and by all workers where that can be.

Closed, failures in a row are counted; open, nobody asks for a while; half-open, one lane asks for all.
The while begins short and doubles up to the cooldown: a restart is over in seconds, and a long outage is left alone.
What handlers do never counts here.
"""

import threading
import time

from tenure.worker.fleet import LOOK, Fleet
from tenure.worker.pauses import Pauses

FIRST = 0.5  # seconds of the first pause
_LOOK = 0.25
_PROBING = 30.0  # that a lane may take to ask for all, until another may


class Outage:
    """`pause` before a call, then `failed` or `over`."""

    def __init__(self, threshold: int = 5, cooldown: float = 60.0, fleet: Fleet | None = None) -> None:
        self._threshold = threshold
        self._fleet = fleet
        self._lock = threading.Lock()
        self._pauses = Pauses(min(FIRST, cooldown), cooldown)
        self._failures = 0
        self._until = 0.0
        self._probe: object | None = None
        self._probe_until = 0.0

    def pause(self, who: object) -> float:
        """Seconds until this one may look whether it may ask; 0 when it may ask now."""
        if not self._failures:
            return 0.0
        with self._lock:
            now = time.monotonic()
            if self._until > now:
                return self._until - now
            if self._probe not in (None, who) and self._probe_until > now:
                return _LOOK
            pause = self._fleet.ask() if self._fleet else None
            if pause:
                self._until = now + pause
                return pause
            if pause is not None or self._failures >= self._threshold:
                self._probe, self._probe_until = who, now + _PROBING
            return 0.0

    def failed(self) -> float | None:
        """The backend did not do what it was asked; for how long nobody asks now, None while it is still closed."""
        with self._lock:
            self._failures += 1
            pause = self._pauses.longer() if self._failures >= self._threshold else 0.0
            look = pause
            if self._fleet and (told := self._fleet.tell(succeeded=False)) is not None:
                pause, look = told, min(told, LOOK)
            self._until, self._probe = time.monotonic() + look, None
            return pause or None

    def over(self) -> bool:
        """The backend answers; whether it did not before."""
        if not self._failures:
            return False
        with self._lock:
            was_open = self._failures >= self._threshold
            self._failures, self._until, self._probe = 0, 0.0, None
            self._pauses.reset()
            if self._fleet:
                self._fleet.tell(succeeded=True)
            return was_open
