"""Outage: a circuit breaker around the backend, shared by the lanes of a worker.

Closed, failures in a row are counted; open, nobody asks for a while; half-open, one lane asks for all.
The while begins short and doubles up to the cooldown: a restart is over in seconds, and a long outage is left alone.
What handlers do never counts here.
"""

import threading
import time

from tenure.worker.pauses import Pauses

_FIRST = 0.5
_LOOK = 0.25


class Outage:
    """`pause` before a call, then `failed` or `over`."""

    def __init__(self, threshold: int = 5, cooldown: float = 60.0) -> None:
        self._threshold = threshold
        self._lock = threading.Lock()
        self._pauses = Pauses(min(_FIRST, cooldown), cooldown)
        self._failures = 0
        self._until = 0.0
        self._probe: object | None = None

    def pause(self, who: object) -> float:
        """Seconds until this one may look whether it may ask; 0 when it may ask now."""
        if self._failures < self._threshold:
            return 0.0
        with self._lock:
            left = self._until - time.monotonic()
            if left > 0:
                return left
            if self._probe not in (None, who):
                return _LOOK
            self._probe = who
            return 0.0

    def failed(self) -> float | None:
        """The backend did not do what it was asked; for how long nobody asks now, None while it is still closed."""
        with self._lock:
            self._failures += 1
            if self._failures < self._threshold:
                return None
            pause = self._pauses.longer()
            self._until, self._probe = time.monotonic() + pause, None
            return pause

    def over(self) -> bool:
        """The backend answers; whether it did not before."""
        if not self._failures:
            return False
        with self._lock:
            was_open = self._failures >= self._threshold
            self._failures, self._probe = 0, None
            self._pauses.reset()
            return was_open
