"""The cancel watcher passes on requests to cancel, and writes only progress that changed."""

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Message
from tenure.definition.context import Progress
from tenure.testing import FakeClock
from tenure.worker.cancel_watcher import CancelWatcher
from tenure.worker.inbox import HeldLeases


class CountedControl:
    """Remembers how often it was asked, and which progress it saved."""

    def __init__(self, control):
        self._control = control
        self.looks = 0
        self.notes = []

    def cancel_requested(self, leases):
        self.looks += 1
        return self._control.cancel_requested(leases)

    def save_progress(self, items):
        self.notes.append([(lease.id, progress) for lease, progress in items])
        self._control.save_progress(items)


@pytest.fixture
def backend():
    return MemoryBackend(FakeClock())


@pytest.fixture
def control(backend):
    return CountedControl(backend.control)


@pytest.fixture
def held():
    return HeldLeases()


@pytest.fixture
def leases(backend, held):
    backend.put([Message(id=id, queue="default", body=b"", handler="ping") for id in ("one", "two")])
    leases = backend.lease(["default"], limit=2, seconds=15)
    held.hold(leases, 0.0, 15.0)
    return leases


@pytest.fixture
def told():
    """What the runs say they are at."""
    return []


@pytest.fixture
def cancelled():
    return []


@pytest.fixture
def watcher(control, held, cancelled, told):
    return CancelWatcher(control, held, cancelled.append, lambda: list(told))


def test_nothing_is_asked_while_nothing_is_held(watcher, control):
    watcher.poll()
    assert (control.looks, control.notes) == (0, [])


def test_what_was_cancelled_is_passed_on_until_it_has_stopped(control, watcher, backend, leases, held, cancelled):
    watcher.poll()
    backend.control.cancel(["two"])
    watcher.poll()
    watcher.poll()
    held.drop([leases[1]])
    watcher.poll()
    assert cancelled == [[leases[1]], [leases[1]]]


def test_only_progress_that_has_changed_is_written(control, watcher, backend, leases, told):
    watcher.poll()
    told[:] = [(leases[0], Progress(1, 9)), (leases[1], Progress(5))]
    watcher.poll()
    watcher.poll()
    told[:] = [(leases[0], Progress(2, 9)), (leases[1], Progress(5))]
    watcher.poll()
    assert control.notes == [[("one", Progress(1, 9)), ("two", Progress(5))], [("one", Progress(2, 9))]]
    assert backend.jobs.find("one").progress == Progress(2, 9)
