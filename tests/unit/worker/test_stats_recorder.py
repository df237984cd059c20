"""The statistics recorder counts what a worker settles, once, in the right time slot."""

import pytest

from tenure.backends.memory.workers import MemoryStats
from tenure.errors import BackendUnavailable
from tenure.events import Run, Settled, Settlement, Status
from tenure.metrics.statistics import SLOT_MICROSECONDS
from tenure.testing import FakeClock
from tenure.worker.stats_recorder import StatsRecorder

DONE = Settled((Settlement("1", "mail", Status.ACKED, 1, None, False, Run("greet", 0, 1.0)),))
MINUTES = SLOT_MICROSECONDS / 60_000_000 * 60


class FlakyStats(MemoryStats):
    down = False
    saves = 0

    def save(self, tallies):
        if self.down:
            raise BackendUnavailable("gone fishing")
        self.saves += 1
        super().save(tallies)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def stats():
    return FlakyStats()


@pytest.fixture
def recorder(stats, clock):
    return StatsRecorder(stats, clock, "me")


def done(stats, clock):
    found = stats.read(0, clock.now() + SLOT_MICROSECONDS)
    return [each.counts.statuses["acked"] for each in found]


def test_what_was_settled_is_noted_in_sum(recorder, stats, clock):
    recorder(DONE)
    recorder.flush()
    recorder(DONE)
    recorder.flush()
    assert done(stats, clock) == [2]


def test_nothing_new_is_not_noted_again(recorder, stats):
    recorder(DONE)
    recorder.flush()
    recorder.flush()
    assert stats.saves == 1


def test_each_slot_has_its_own_counts(recorder, stats, clock):
    recorder(DONE)
    clock.advance(MINUTES)
    recorder(DONE)
    recorder(DONE)
    recorder.flush()
    clock.advance(MINUTES)
    recorder(DONE)
    recorder.flush()
    assert done(stats, clock) == [1, 2, 1]


def test_what_could_not_be_noted_is_noted_later(recorder, stats, clock):
    recorder(DONE)
    stats.down = True
    with pytest.raises(BackendUnavailable):
        recorder.flush()
    stats.down = False
    clock.advance(MINUTES)
    recorder.flush()
    assert done(stats, clock) == [1]


def test_a_worker_that_stops_notes_what_it_has(recorder, stats, clock):
    recorder(DONE)
    recorder.stop()
    recorder.run()
    assert done(stats, clock) == [1]


def test_the_jobs_that_ended_are_counted_whatever_slots_are_over(recorder, clock):
    again = Settlement("2", "mail", Status.REQUEUED, 1, "failed", True, Run("greet", 0, 1.0))
    lost = Settlement("3", "films", Status.REJECTED, 1, "malformed", False)
    recorder(DONE)
    recorder(Settled((again, lost)))
    recorder.flush()
    clock.advance(2 * MINUTES)
    recorder(DONE)
    recorder.flush()
    assert recorder.ended() == {"mail": 2, "films": 1}
