"""One key at a time, moved by steps as a store would move it."""

import pytest

from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Holder, unpack
from tenure.guards.store import KeyUpdate

NOW = 1_893_456_000_000_000  # 2030-01-01T00:00:00Z
SECOND = 1_000_000


class Key:
    """A guard's key with its state, and a clock that tests move."""

    def __init__(self, guard):
        self.guard = guard
        self.row = KeyUpdate(None)
        self.now = NOW

    @property
    def state(self):
        return unpack(self.row.state) if self.row.expires > self.now else None

    def take(self, id, fence=1, seconds=15):
        return self._apply(self.guard.take(self.state, Holder(id, fence, seconds), self.now))

    def renew(self, id, fence=1, seconds=15):
        return self._apply(self.guard.renew(self.state, Holder(id, fence, seconds), self.now))

    def settle(self, id, fence=1, *, over=True, succeeded=None, again=0.0):
        step = self.guard.settle(self.state, Holder(id, fence, 15), Ending(over, succeeded, again), self.now)
        self._apply(step)
        return step

    def advance(self, seconds):
        self.now += round(seconds * SECOND)

    def _apply(self, result):
        if isinstance(result, Refusal):
            return result
        if result is not None:
            self.row = result
        return None


@pytest.fixture
def key_of():
    return Key
