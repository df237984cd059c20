"""The metrics page, read by a parser of the Prometheus format."""

import ast
import sys
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_as_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed

import tenure
from tenure.errors import SettingsError
from tenure.metrics.collector import MemoryCollector
from tenure.metrics.counters import LAST_BEAT, Snapshot, merge_snapshots, take_snapshot
from tenure.metrics.prometheus import HELP, check_installed, page_name, render
from tenure.metrics.queue_signals import backend_up_gauge, queue_gauges, queue_signals

SEVEN = (
    *("jobs_fetched", "jobs_rejected_signature", "jobs_skipped_idempotent", "jobs_succeeded"),
    *("jobs_failed", "jobs_requeued", "jobs_failed_permanently"),
)


@pytest.fixture
def collector():
    return MemoryCollector()


def families(snapshot):
    return {family.name: family for family in parsed(render(snapshot)[0].decode())}


def samples(snapshot):
    found = families(snapshot).values()
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for family in found for each in family.samples}


@pytest.mark.parametrize("name", SEVEN)
def test_the_seven_counters_have_their_names_and_their_queue(collector, name):
    collector.increment(name, 3, queue="mail")
    family = families(take_snapshot(collector))[f"tenure_{name}"]
    assert (family.type, [(each.name, each.labels, each.value) for each in family.samples]) == (
        "counter",
        [(f"tenure_{name}_total", {"queue": "mail"}, 3.0)],
    )


def test_a_counter_that_is_named_a_total_is_not_named_so_twice(collector):
    collector.increment("queue_ack_total", backend="sqlite", queue="mail")
    found = list(samples(take_snapshot(collector)))
    assert found == [("tenure_queue_ack_total", (("backend", "sqlite"), ("queue", "mail")))]


def test_names_of_the_app_that_are_equal_on_the_page_are_one_series(collector):
    for name in ("orders", "orders_total", "or.ders", "or-ders"):
        collector.increment(name, 2, shop="a")
    collector.observe("cook.time_seconds", 0.1)
    collector.observe("cook-time_seconds", 0.1)
    page = render(take_snapshot(collector))[0].decode()
    series = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    found = samples(take_snapshot(collector))
    assert found["tenure_app_orders_total", (("shop", "a"),)] == 4
    assert found["tenure_app_or_ders_total", (("shop", "a"),)] == 4
    assert found["tenure_app_cook_time_seconds_count", ()] == 2


def test_a_label_that_is_no_text_does_not_spoil_the_page(collector):
    collector.increment("orders", shop=7)
    collector.observe("order_seconds", 1, file="caf\udce9")
    found = samples(take_snapshot(collector))
    assert found["tenure_app_orders_total", (("shop", "7"),)] == 1
    assert found["tenure_app_order_seconds_count", (("file", r"caf\udce9"),)] == 1


def test_each_bucket_of_a_histogram_holds_what_is_in_the_smaller_ones(collector):
    collector.observe_all("jobs_exec_seconds", [0.002, 0.2, 0.3, 5000.0], queue="mail")
    found = samples(take_snapshot(collector))

    def bucket(bound):
        return found["tenure_jobs_exec_seconds_bucket", (("le", bound), ("queue", "mail"))]

    assert [bucket("0.001"), bucket("0.0025"), bucket("0.25"), bucket("0.5"), bucket("+Inf")] == [0, 1, 2, 3, 4]
    assert found["tenure_jobs_exec_seconds_count", (("queue", "mail"),)] == 4
    assert found["tenure_jobs_exec_seconds_sum", (("queue", "mail"),)] == pytest.approx(5000.502)


def test_queues_are_told_by_state_with_their_age_and_rates():
    told = queue_signals({"mail": {"ready": 4, "leased": 1}}, {"mail": 7.5}, {"mail": 2.0}, None)
    found = samples(Snapshot(gauges=(backend_up_gauge(True), *queue_gauges(told))))
    assert found["tenure_queue_jobs", (("queue", "mail"), ("state", "ready"))] == 4
    assert found["tenure_queue_oldest_age_seconds", (("queue", "mail"),)] == 7.5
    assert found["tenure_queue_service_jobs_per_second", (("queue", "mail"),)] == 2.0
    assert found["tenure_queue_drain_seconds", (("queue", "mail"),)] == 2.0
    assert found["tenure_backend_up", ()] == 1
    assert not [name for name, _ in found if name == "tenure_queue_arrival_jobs_per_second"]


def test_names_of_queues_cannot_break_the_page(collector):
    name = 'a"b\\c\nd{}=,;|'
    collector.increment("jobs_fetched", queue=name)
    assert samples(take_snapshot(collector)) == {("tenure_jobs_fetched_total", (("queue", name),)): 1}


def test_names_that_prometheus_does_not_know_are_made_plain(collector):
    collector.increment("my jobs!", **{"häh": "x"})
    collector.observe("my jobs!", 1.0)
    found = families(take_snapshot(collector))
    assert (found["tenure_app_my_jobs_"].type, found["tenure_app_my_jobs__histogram"].type) == ("counter", "histogram")


def emitted_names():
    """The names in calls such as `collector.increment("jobs_fetched", ...)`, wherever Tenure counts something."""
    methods = {"increment", "_increment", "observe", "_observe", "observe_all", "_observe_all", "_count"}
    for path in (Path(tenure.__file__).parent).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in methods and node.args:
                (name, *_) = node.args
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


@pytest.mark.parametrize("name", sorted(set(emitted_names())))
def test_what_tenure_counts_has_a_help_text_and_is_not_taken_for_a_counter_of_the_app(name):
    assert name in HELP
    assert not page_name(name).startswith("tenure_app_")


def test_counters_of_the_app_have_a_prefix_of_their_own(collector):
    collector.increment("orders", 2)
    collector.increment("tenure_orders", 3)
    found = samples(take_snapshot(collector))
    assert found == {("tenure_app_orders_total", ()): 2, ("tenure_app_tenure_orders_total", ()): 3}


def test_gauges_of_workers_add_up_except_the_oldest_beat():
    one = Snapshot(worker_gauges=(("tenure_worker_slots", (), 4.0), (LAST_BEAT, (), 100.0)))
    other = Snapshot(worker_gauges=(("tenure_worker_slots", (), 2.0), (LAST_BEAT, (), 90.0)))
    found = samples(merge_snapshots([one, Snapshot(), other]))
    assert found == {("tenure_worker_slots", ()): 6, (LAST_BEAT, ()): 90}


def test_who_asks_for_openmetrics_gets_it(collector):
    collector.increment("jobs_fetched", queue="mail")
    collector.observe("jobs_exec_seconds", 1.0, queue="mail")
    page, kind = render(take_snapshot(collector), "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    names = [family.name for family in parsed_as_openmetrics(page.decode())]
    assert names == ["tenure_jobs_fetched", "tenure_jobs_exec_seconds"]


def test_snapshots_add_up(collector):
    collector.increment("jobs_fetched", 2, queue="mail")
    collector.observe("settle_batch", 3)
    other = MemoryCollector()
    other.increment("jobs_fetched", 5, queue="mail")
    other.increment("jobs_fetched", 1, queue="films")
    other.observe_all("settle_batch", [1, 7])
    found = samples(merge_snapshots([take_snapshot(collector), take_snapshot(other)]))
    assert found["tenure_jobs_fetched_total", (("queue", "mail"),)] == 7
    assert found["tenure_jobs_fetched_total", (("queue", "films"),)] == 1
    assert (found["tenure_settle_batch_jobs_count", ()], found["tenure_settle_batch_jobs_sum", ()]) == (3, 11)


def test_without_the_package_a_page_is_refused_with_advice(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(SettingsError, match=r"pip install 'tenure\[metrics\]'"):
        check_installed()
