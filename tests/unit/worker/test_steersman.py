"""The steersman passes on what was cancelled, and writes only the progress that has changed."""

import pytest

from tenure.backends.contract import Message
from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.steering import MemorySteering
from tenure.definition.progress import Progress
from tenure.testing import FakeClock
from tenure.worker.holdings import Holdings
from tenure.worker.steersman import Steersman


class Watched(MemoryBackend):
    """Remembers what it was asked to note."""

    def __init__(self):
        super().__init__(FakeClock())
        self.looks = 0
        self.notes = []
        self._steering = MemorySteering(self._table)
        self.asked_to_stop, self.note_progress = self._asked_to_stop, self._note_progress

    def _asked_to_stop(self, leases):
        self.looks += 1
        return self._steering.asked_to_stop(leases)

    def _note_progress(self, items):
        self.notes.append([(lease.id, progress) for lease, progress in items])
        self._steering.note_progress(items)


@pytest.fixture
def backend():
    return Watched()


@pytest.fixture
def holdings():
    return Holdings()


@pytest.fixture
def leases(backend, holdings):
    backend.put([Message(id=id, queue="default", body=b"", handler="ping") for id in ("one", "two")])
    leases = backend.lease(["default"], limit=2, seconds=15)
    holdings.hold(leases, 0.0, 15.0)
    return leases


@pytest.fixture
def told():
    """What the runs say they are at."""
    return []


@pytest.fixture
def cancelled():
    return []


@pytest.fixture
def steersman(backend, holdings, cancelled, told):
    return Steersman(backend, holdings, cancelled.append, lambda: list(told))


def test_nothing_is_asked_while_nothing_is_held(steersman, backend):
    steersman.look()
    assert (backend.looks, backend.notes) == (0, [])


def test_what_was_cancelled_is_passed_on_until_it_has_stopped(steersman, backend, leases, holdings, cancelled):
    steersman.look()
    backend.cancel(["two"])
    steersman.look()
    steersman.look()
    holdings.drop([leases[1]])
    steersman.look()
    assert cancelled == [[leases[1]], [leases[1]]]


def test_only_progress_that_has_changed_is_written(steersman, backend, leases, told):
    steersman.look()
    told[:] = [(leases[0], Progress(1, 9)), (leases[1], Progress(5))]
    steersman.look()
    steersman.look()
    told[:] = [(leases[0], Progress(2, 9)), (leases[1], Progress(5))]
    steersman.look()
    assert backend.notes == [[("one", Progress(1, 9)), ("two", Progress(5))], [("one", Progress(2, 9))]]
    assert backend.find("one").progress == Progress(2, 9)
