"""The collector in memory, and the seven counters of a worker."""

import threading

import pytest

from tenure.events import Leased, LeaseLost, Reaped, Run, Settled, Settlement, Status, WorkerStopped
from tenure.metrics.collector import MAX_SERIES, MemoryCollector, NoCollector, SafeCollector, Series, batch_observer
from tenure.metrics.counters import WorkerCounters


@pytest.fixture
def collector():
    return MemoryCollector()


@pytest.fixture
def counters(collector):
    return WorkerCounters(collector)


def settled(status, *, reason=None, failed=False, queue="emails"):
    return Settlement("id-1", queue, status, 1, reason, failed)


def test_a_counter_grows(collector):
    collector.increment("jobs")
    collector.increment("jobs", 2)

    assert collector.snapshot()["counters"] == {"jobs": 3}


def test_labels_make_series_of_their_own_whatever_their_order(collector):
    collector.increment("jobs", queue="a", host="x")
    collector.increment("jobs", host="x", queue="a")
    collector.increment("jobs", queue="b", host="x")

    assert collector.snapshot()["counters"] == {"jobs|host=x;queue=a": 2, "jobs|host=x;queue=b": 1}


def test_observations_are_kept_as_count_sum_min_and_max(collector):
    collector.observe("seconds", 2.0)
    collector.observe("seconds", 0.5)
    collector.observe("seconds", 1.0)

    assert collector.snapshot()["histograms"] == {"seconds": {"count": 3, "sum": 3.5, "min": 0.5, "max": 2.0}}


def test_a_snapshot_does_not_change_afterwards(collector):
    collector.increment("jobs")
    snapshot = collector.snapshot()

    collector.increment("jobs")

    assert snapshot["counters"] == {"jobs": 1}


def test_the_oldest_counter_gives_way_beyond_the_cap(collector):
    for number in range(MAX_SERIES + 3):
        collector.increment("jobs", number=str(number))

    series = collector.snapshot()["counters"]
    assert len(series) == MAX_SERIES
    assert next(iter(series)) == "jobs|number=3"


def test_the_oldest_histogram_gives_way_beyond_the_cap(collector):
    for number in range(MAX_SERIES + 1):
        collector.observe("seconds", 1.0, number=str(number))

    assert len(collector.snapshot()["histograms"]) == MAX_SERIES


def test_counting_from_many_threads_loses_nothing(collector):
    threads = [threading.Thread(target=lambda: [collector.increment("jobs") for _ in range(2_000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert collector.snapshot()["counters"] == {"jobs": 16_000}


def test_every_leased_job_is_counted_as_fetched(collector, counters):
    counters(Leased("emails", ("id-1", "id-2")))

    assert collector.snapshot()["counters"] == {"jobs_fetched|queue=emails": 2}


@pytest.mark.parametrize(
    ("settlement", "counted"),
    [
        (settled(Status.ACKED), ["jobs_succeeded"]),
        (settled(Status.REQUEUED, reason="failed", failed=True), ["jobs_requeued", "jobs_failed"]),
        (settled(Status.DEAD_LETTERED, reason="failed", failed=True), ["jobs_failed_permanently", "jobs_failed"]),
        (settled(Status.DEAD_LETTERED, reason="crash_loop"), ["jobs_failed_permanently"]),
        (settled(Status.SKIPPED_IDEMPOTENT), ["jobs_skipped_idempotent"]),
        (settled(Status.REJECTED, reason="bad_signature"), ["jobs_rejected", "jobs_rejected_signature"]),
        (settled(Status.REJECTED, reason="malformed"), ["jobs_rejected"]),
        (settled(Status.POSTPONED), []),
        (settled(Status.CANCELLED), ["jobs_cancelled"]),
        (settled(Status.EXPIRED), ["jobs_expired"]),
    ],
)
def test_what_became_of_a_job_is_counted_by_queue(collector, counters, settlement, counted):
    counters(Settled((settlement,)))

    assert collector.snapshot()["counters"] == {f"{name}|queue=emails": 1 for name in counted}


def test_a_batch_is_counted_queue_by_queue(collector, counters):
    counters(Settled((settled(Status.ACKED), settled(Status.ACKED), settled(Status.ACKED, queue="reports"))))

    assert collector.snapshot()["counters"] == {"jobs_succeeded|queue=emails": 2, "jobs_succeeded|queue=reports": 1}


def test_other_events_count_nothing(collector, counters):
    counters(WorkerStopped("me"))

    assert collector.snapshot()["counters"] == {}


def test_timeouts_lost_leases_reaps_and_batches_are_counted(collector, counters):
    late = Settlement("1", "mail", Status.REQUEUED, 1, "timed_out", True)
    dead = Settlement("2", "mail", Status.DEAD_LETTERED, 2, "timeout", True)
    counters(Settled((late, dead)))
    counters(LeaseLost(("1", "2"), "renew"))
    counters(Reaped("mail", ("1", "2", "3"), ("3",)))
    found = collector.snapshot()
    assert found["counters"]["jobs_timed_out|queue=mail"] == 2
    assert found["counters"]["leases_lost|verb=renew"] == 2
    assert (found["counters"]["leases_reaped|queue=mail"], found["counters"]["jobs_crashed|queue=mail"]) == (3, 1)
    assert found["histograms"]["settle_batch"] == {"count": 1, "sum": 2, "min": 2, "max": 2}


def test_the_age_of_jobs_and_the_length_of_attempts_are_observed_by_queue(collector, counters):
    first = Settlement("1", "mail", Status.ACKED, 1, None, False, Run("send", 0, 0.5, wait=3.0))
    again = Settlement("2", "mail", Status.ACKED, 2, None, False, Run("send", 0, 1.5))
    counters(Settled((first, again, settled(Status.POSTPONED, queue="mail"))))
    found = collector.snapshot()["histograms"]
    assert found["jobs_exec_seconds|queue=mail"] == {"count": 2, "sum": 2.0, "min": 0.5, "max": 1.5}
    assert found["jobs_age_seconds|queue=mail"] == {"count": 1, "sum": 3.0, "min": 3.0, "max": 3.0}


def test_a_collector_that_only_observes_single_values_is_told_each():
    told = []

    class Plain(NoCollector):
        def observe(self, name, value, **labels):
            told.append((name, value, labels))

    batch_observer(Plain())("seconds", [1.0, 2.0], queue="mail")
    assert told == [("seconds", 1.0, {"queue": "mail"}), ("seconds", 2.0, {"queue": "mail"})]


@pytest.mark.parametrize("values", [[0.001, 0.0011, 0.3, 0.25, 9999.0], [5.0], [0.0, 0.0], [4000.0]])
def test_a_batch_falls_into_the_buckets_that_its_values_fall_into_one_by_one(values):
    one, many = MemoryCollector(), MemoryCollector()
    for value in values:
        one.observe("x_seconds", value)
    many.observe_all("x_seconds", values)
    (single,), (batch,) = (list(each.series()[1].values()) for each in (one, many))
    assert (single.buckets, single.count, single.low, single.high) == (
        batch.buckets,
        batch.count,
        batch.low,
        batch.high,
    )
    assert single.total == pytest.approx(batch.total)
    assert sum(batch.buckets) == len(values)


def test_a_value_at_the_bound_of_a_bucket_belongs_to_it(collector):
    collector.observe_all("x_seconds", [0.005, 0.0051])
    histogram = collector.series()[1][Series("x_seconds")]
    assert [bound for bound, count in zip(histogram.bounds, histogram.buckets, strict=False) if count] == [0.005, 0.01]


def test_no_observations_make_no_series(collector):
    collector.observe_all("x_seconds", [])
    assert collector.snapshot()["histograms"] == {}


def test_a_collector_that_fails_is_logged_and_hurts_nobody(caplog):
    class Broken(NoCollector):
        def increment(self, name, value=1, **labels):
            raise ValueError("full")

        observe = increment

    guarded = SafeCollector(Broken())
    guarded.increment("jobs")
    guarded.observe("seconds", 1.0)
    assert [record.message for record in caplog.records] == [
        "the collector failed to increment jobs",
        "the collector failed to observe seconds",
    ]
