"""The bookkeeper: what a worker settles is noted, once, in the slot it fell into."""

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.errors import BackendUnavailable
from tenure.events import Run, Settled, Settlement, Status
from tenure.metrics.tally import SLOT
from tenure.testing import FakeClock
from tenure.worker.bookkeeper import Bookkeeper

DONE = Settled((Settlement("1", "mail", Status.ACKED, 1, None, False, Run("greet", 0, 1.0)),))
MINUTES = SLOT / 60_000_000 * 60


class Flaky(MemoryBackend):
    down = False
    notes = 0

    def __init__(self, clock):
        super().__init__(clock)
        keep = self.note_tallies

        def note(tallies):
            if self.down:
                raise BackendUnavailable("gone fishing")
            self.notes += 1
            keep(tallies)

        self.note_tallies = note


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(clock):
    return Flaky(clock)


@pytest.fixture
def books(backend, clock):
    return Bookkeeper(backend, clock, "me")


def done(backend, clock):
    found = backend.tallies(0, clock.now() + SLOT)
    return [each.counts.statuses["acked"] for each in found]


def test_what_was_settled_is_noted_in_sum(books, backend, clock):
    books(DONE)
    books.note()
    books(DONE)
    books.note()
    assert done(backend, clock) == [2]


def test_nothing_new_is_not_noted_again(books, backend):
    books(DONE)
    books.note()
    books.note()
    assert backend.notes == 1


def test_each_slot_has_its_own_counts(books, backend, clock):
    books(DONE)
    clock.advance(MINUTES)
    books(DONE)
    books(DONE)
    books.note()
    clock.advance(MINUTES)
    books(DONE)
    books.note()
    assert done(backend, clock) == [1, 2, 1]


def test_what_could_not_be_noted_is_noted_later(books, backend, clock):
    books(DONE)
    backend.down = True
    with pytest.raises(BackendUnavailable):
        books.note()
    backend.down = False
    clock.advance(MINUTES)
    books.note()
    assert done(backend, clock) == [1]


def test_a_worker_that_stops_notes_what_it_has(books, backend, clock):
    books(DONE)
    books.stop()
    books.run()
    assert done(backend, clock) == [1]


def test_the_jobs_that_ended_are_counted_whatever_slots_are_over(books, clock):
    again = Settlement("2", "mail", Status.REQUEUED, 1, "failed", True, Run("greet", 0, 1.0))
    lost = Settlement("3", "films", Status.REJECTED, 1, "malformed", False)
    books(DONE)
    books(Settled((again, lost)))
    books.note()
    clock.advance(2 * MINUTES)
    books(DONE)
    books.note()
    assert books.ended() == {"mail": 2, "films": 1}
