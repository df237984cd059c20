"""Series: slots that are over are read once, and what each window shows of them."""

import pytest

from tenure.app.dashboard import series
from tenure.app.dashboard.series import SlotHistory, slot_starts
from tenure.backends.memory.workers import MemoryStats
from tenure.clock import MICROSECOND
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, Tally

NOW = 6_000_000 * SLOT_MICROSECONDS + 120 * MICROSECOND
HOUR = 12 * SLOT_MICROSECONDS


class Stats(MemoryStats):
    """Remembers from when on it was read."""

    def __init__(self):
        super().__init__()
        self.reads = []

    def read(self, since, until):
        self.reads.append(since)
        return super().read(since, until)


@pytest.fixture
def stats():
    return Stats()


@pytest.fixture
def history(monkeypatch):
    monkeypatch.setattr(series, "SHARED_SECONDS", dict.fromkeys(series.SHARED_SECONDS, 0.0))
    return SlotHistory()


def tally(slots_ago, done, queue="emails", worker="w1", now=NOW):
    slot = now // SLOT_MICROSECONDS * SLOT_MICROSECONDS - slots_ago * SLOT_MICROSECONDS
    return Tally(slot, queue, "send", worker, Counts(statuses={"acked": done}))


def done(slots):
    return sum(each.counts.statuses["acked"] for each in slots.tallies)


@pytest.mark.parametrize(
    ("window", "count", "seconds"), [("15m", 3, 300), ("1h", 12, 300), ("24h", 288, 300), ("7d", 288, 2100)]
)
def test_a_window_has_slots_up_to_now(window, count, seconds):
    starts, width = slot_starts(NOW, window)

    assert (len(starts), width) == (count, seconds * MICROSECOND)
    assert starts[-1] <= NOW < starts[-1] + width


def test_slots_that_are_over_are_read_once(stats, history):
    stats.save([tally(5, 7), tally(0, 1)])
    assert done(history.slots(stats, NOW, "1h")) == 8

    stats.save([tally(0, 2)])
    assert done(history.slots(stats, NOW, "1h")) == 9

    assert stats.reads[1] > stats.reads[0]
    assert stats.reads[1] <= NOW - SLOT_MICROSECONDS


def test_a_slot_stays_open_until_no_worker_writes_it_any_more(stats, history):
    stats.save([tally(1, 7)])
    history.slots(stats, NOW, "1h")

    stats.save([tally(1, 9)])

    assert done(history.slots(stats, NOW, "1h")) == 9


def test_a_longer_window_reads_what_a_shorter_one_did_not(stats, history):
    stats.save([tally(100, 7), tally(2, 1)])

    assert done(history.slots(stats, NOW, "1h")) == 1
    assert done(history.slots(stats, NOW, "24h")) == 8
    assert done(history.slots(stats, NOW, "1h")) == 1


def test_old_slots_leave_the_window_as_time_passes(stats, history):
    stats.save([tally(11, 7)])

    assert done(history.slots(stats, NOW, "1h")) == 7
    assert done(history.slots(stats, NOW + SLOT_MICROSECONDS, "1h")) == 0


def test_workers_are_added_up_and_a_week_joins_slots(stats, history):
    stats.save([tally(1000, 7), tally(1000, 5, worker="w2"), tally(1, 1)])

    slots = history.slots(stats, NOW, "7d")

    assert (done(slots), len(slots.tallies)) == (13, 2)
    assert all(each.slot in slots.starts for each in slots.tallies)


def test_a_slot_that_a_fast_clock_has_begun_is_left_out(stats, history):
    stats.save([tally(-1, 7)])

    assert history.slots(stats, NOW, "1h").tallies == ()


def test_a_slot_that_has_just_begun_does_not_let_the_rate_fall(stats, history):
    early = NOW - 110 * MICROSECOND
    stats.save([tally(1, 300)])

    rates = series.queue_rates(history.slots(stats, early, "15m"))["emails"]

    assert rates == (0.0, 1.0, pytest.approx(300 / 310))


def test_without_statistics_all_slots_are_empty(history):
    assert history.slots(None, NOW, "1h").tallies == ()
