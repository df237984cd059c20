"""Calls of a backend are counted, by queue where they have one."""

from typing import get_type_hints

import pytest

from tenure import Tenure
from tenure.backends.contract import Backend
from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Abandon, Ack, Message, Nack
from tenure.backends.metered import BackendMeter, MeteredBackend
from tenure.errors import BackendUnavailable
from tenure.metrics.collector import MemoryCollector
from tenure.testing import FakeClock

SECONDS = 15.0


def message(number, queue="mail"):
    return Message(id=f"job-{number}", queue=queue, body=b"{}", handler="greet")


@pytest.fixture
def collector():
    return MemoryCollector()


@pytest.fixture
def backend(collector):
    return MeteredBackend(MemoryBackend(FakeClock()), BackendMeter("memory", collector))


def counted(collector, prefix):
    return {name: count for name, count in collector.snapshot()["counters"].items() if name.startswith(prefix)}


def test_puts_are_counted_by_queue(backend, collector):
    backend.put([message(1), message(2), message(3, "films")])
    assert counted(collector, "queue_enqueue") == {
        "queue_enqueue_total|backend=memory;queue=mail;status=success": 2,
        "queue_enqueue_total|backend=memory;queue=films;status=success": 1,
    }
    histograms = collector.snapshot()["histograms"]
    assert histograms["queue_enqueue_duration_seconds|backend=memory"]["count"] == 1


def test_single_puts_are_all_counted_however_many_there_are(backend, collector):
    for number in range(600):
        backend.put([message(number)])
    name = "queue_enqueue_total|backend=memory;queue=mail;status=success"
    assert counted(collector, "queue_enqueue") == {name: 600}
    assert collector.snapshot()["histograms"]["queue_enqueue_duration_seconds|backend=memory"]["count"] == 600


def test_what_was_put_before_a_backend_was_closed_is_counted(backend, collector):
    backend.put([message(1)])
    backend.close()
    backend.close()
    assert sum(counted(collector, "queue_enqueue").values()) == 1


def test_a_put_that_fails_is_counted_as_an_error_and_still_fails(collector):
    backend = MemoryBackend(FakeClock())

    def refuse(messages):
        raise BackendUnavailable("gone")

    backend.put = refuse
    backend = MeteredBackend(backend, BackendMeter("memory", collector))
    with pytest.raises(BackendUnavailable, match="gone"):
        backend.put([message(1)])
    assert counted(collector, "queue_enqueue") == {"queue_enqueue_total|backend=memory;queue=mail;status=error": 1}


def test_leases_are_counted_and_so_are_those_that_found_nothing(backend, collector):
    assert backend.lease(["mail"], limit=5, seconds=SECONDS) == []
    backend.put([message(1), message(2)])
    assert len(backend.lease(["mail"], limit=5, seconds=SECONDS)) == 2
    assert counted(collector, "queue_fetch") == {
        "queue_fetch_empty_total|backend=memory": 1,
        "queue_fetch_total|backend=memory;queue=mail": 2,
    }
    assert collector.snapshot()["histograms"]["queue_fetch_duration_seconds|backend=memory"]["count"] == 2


def test_settlements_renewals_and_reaps_are_counted(backend, collector):
    backend.put([message(number) for number in range(3)])
    first, second, third = backend.lease(["mail"], limit=3, seconds=SECONDS)
    assert backend.renew([first, second, third], seconds=SECONDS) == []
    backend.ack([Ack(lease=first)])
    backend.nack([Nack(lease=second)])
    backend.abandon([Abandon(lease=third, reason="timeout")])
    backend.reap(["mail"])
    found = collector.snapshot()["counters"]
    names = [f"queue_{verb}_total|backend=memory;queue=mail" for verb in ("ack", "nack", "abandon")]
    assert [found[name] for name in names] == [1, 1, 1]
    assert found["leases_renewed|backend=memory"] == 3
    assert found["queue_reap_total|backend=memory"] == 0


def test_calls_that_fail_are_counted_by_verb(collector):
    backend = MemoryBackend(FakeClock())

    def refuse(queues, suspect_after):
        raise BackendUnavailable("gone")

    backend.reap = refuse
    backend = MeteredBackend(backend, BackendMeter("memory", collector))
    with pytest.raises(BackendUnavailable):
        backend.reap(["mail"])
    assert counted(collector, "queue_errors") == {"queue_errors_total|backend=memory;verb=reap": 1}


def test_a_metered_backend_has_all_parts_of_the_one_it_counts(backend):
    inner = backend.inner
    parts = [name for name in get_type_hints(Backend) if name not in ("parking", "transactions")]
    assert [getattr(backend, name) for name in parts] == [getattr(inner, name) for name in parts]
    assert (backend.parking is None) == (inner.parking is None)
    assert (backend.transactions is None) == (inner.transactions is None)


def test_a_backend_of_an_app_without_metrics_is_left_as_it_is():
    with Tenure("memory://", metrics=None) as app:
        app.backend.put([message(1)])
        assert app.metrics.snapshot() == {"counters": {}, "histograms": {}}
        assert isinstance(app.backend, MemoryBackend)
