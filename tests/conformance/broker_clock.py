"""BrokerClock: a broker goes by its own clock, so that advancing means waiting."""

from threading import Event

from tenure.clock import SystemClock


class BrokerClock(SystemClock):
    """Leases, which their holder counts in monotonic time, expire only by an advance, however slow the machine is.

    Delays and locks are the broker's, and go by real time.
    """

    def __init__(self):
        self._monotonic = 0.0

    def monotonic(self):
        return self._monotonic

    def advance(self, seconds):
        Event().wait(seconds)
        self._monotonic += seconds
