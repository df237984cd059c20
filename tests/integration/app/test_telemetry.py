"""The metrics of OpenTelemetry: those of its conventions for messaging, and Tenure's own counters."""

import sys

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics._internal.instrument import Counter, Gauge, Histogram
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.semconv._incubating.metrics import messaging_metrics as conventions

from tenure import Snooze, Tenure
from tenure.errors import BackendUnavailable

DELTA = AggregationTemporality.DELTA
READER = InMemoryMetricReader({Counter: DELTA, Gauge: DELTA, Histogram: DELTA})
PROVIDER = MeterProvider([READER])


@pytest.fixture(scope="module", autouse=True)
def _provider():
    if metrics.get_meter_provider() is not PROVIDER:  # xdist may run tests of this file in two parts
        metrics.set_meter_provider(PROVIDER)  # of the process: it can be set once
    assert metrics.get_meter_provider() is PROVIDER


@pytest.fixture
def app():
    READER.get_metrics_data()  # forgets what earlier tests recorded
    with Tenure("memory://", metrics="opentelemetry") as app:
        yield app


def points(name=None):
    """The points recorded since the last call, those of one metric or of all by their names."""
    found = {}
    data = READER.get_metrics_data()
    for scope in (each for resource in data.resource_metrics for each in resource.scope_metrics) if data else ():
        for metric in scope.metrics:
            found[metric.name] = [(dict(point.attributes), point) for point in metric.data.data_points]
    return found if name is None else found.get(name, [])


def with_name(found, operation):
    return [each for each in found if each[0]["messaging.operation.name"] == operation]


def test_an_enqueue_is_a_send_with_its_queue_and_duration(app):
    greet = app.job(queue="mail", name="greet")(lambda: None)
    app.enqueue_many([greet.build(), greet.build()])
    found = points()
    ((attributes, sent),) = found[conventions.MESSAGING_CLIENT_SENT_MESSAGES]
    assert attributes == {
        "messaging.system": "tenure", "messaging.operation.name": "send", "messaging.destination.name": "mail",
    }  # fmt: skip
    assert sent.value == 2
    ((attributes, duration),) = found[conventions.MESSAGING_CLIENT_OPERATION_DURATION]
    assert (attributes["messaging.operation.type"], duration.count) == ("send", 1)
    assert duration.explicit_bounds == (
        *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    )


def test_operations_say_on_which_server_they_were(app, server_url):
    app.configure(url=server_url)
    greet = app.job(name="greet")(lambda: None)
    greet.enqueue()
    app.worker(burst=True).run()
    found = points()
    for name in (
        conventions.MESSAGING_CLIENT_SENT_MESSAGES,
        conventions.MESSAGING_CLIENT_CONSUMED_MESSAGES,
        conventions.MESSAGING_CLIENT_OPERATION_DURATION,
    ):
        servers = {(each["server.address"], each["server.port"]) for each, _ in found[name]}
        assert servers == {("queue.internal", 6390)}


def test_a_send_that_fails_has_the_type_of_its_error(app):
    greet = app.job(name="greet")(lambda: None)
    app.backend.inner.put = lambda messages: (_ for _ in ()).throw(BackendUnavailable("no server"))
    with pytest.raises(BackendUnavailable):
        greet.enqueue()
    found = points()
    for name in (conventions.MESSAGING_CLIENT_SENT_MESSAGES, conventions.MESSAGING_CLIENT_OPERATION_DURATION):
        assert found[name][0][0]["error.type"] == "BackendUnavailable"


def test_a_worker_receives_processes_and_settles(app):
    greet = app.job(queue="mail", name="greet")(lambda: None)
    app.enqueue_many([greet.build() for _ in range(3)])
    app.worker("mail", burst=True).run()
    found = points()
    consumed = found[conventions.MESSAGING_CLIENT_CONSUMED_MESSAGES]
    assert sum(point.value for _, point in consumed) == 3
    assert consumed[0][0] == {
        "messaging.system": "tenure", "messaging.operation.name": "lease", "messaging.destination.name": "mail",
    }  # fmt: skip
    operations = found[conventions.MESSAGING_CLIENT_OPERATION_DURATION]
    kinds = {each["messaging.operation.name"]: each["messaging.operation.type"] for each, _ in operations}
    assert kinds == {"send": "send", "lease": "receive", "ack": "settle"}
    ((attributes, duration),) = found[conventions.MESSAGING_PROCESS_DURATION]
    assert attributes == {
        "messaging.system": "tenure", "messaging.operation.name": "process", "messaging.destination.name": "mail",
        "tenure.handler": "greet",
    }  # fmt: skip
    assert duration.count == 3


def test_a_failed_attempt_has_the_type_of_its_error_and_a_snooze_has_none(app):
    @app.job
    def fail():
        raise KeyError("x")

    @app.job
    def later():
        raise Snooze("1h")

    fail.enqueue()
    later.enqueue()
    app.worker(burst=True).run()
    found = [attributes for attributes, _ in points(conventions.MESSAGING_PROCESS_DURATION)]
    errors = {each["tenure.handler"].rpartition(".")[2]: each.get("error.type") for each in found}
    assert errors == {"fail": "KeyError", "later": None}


def test_own_counters_are_metrics_with_a_prefix(app):
    app.job(name="greet")(lambda: None).enqueue()
    app.worker(burst=True).run()
    found = points()
    assert [(attributes, point.value) for attributes, point in found["tenure.jobs_succeeded"]] == [
        ({"queue": "default"}, 1)
    ]
    assert found["tenure.jobs_age"][0][1].count == 1
    assert app.metrics.snapshot() == {"counters": {}, "histograms": {}}


def test_the_state_of_queues_and_outboxes_is_a_metric_too(app):
    greet = app.job(name="greet")(lambda: None)
    greet.using(queue="other").enqueue()
    app.worker(burst=True).run()
    app.metrics.increment("tenure_outbox_relayed_jobs", 2, outbox="shop", backend="")
    found = points()
    ready = {"queue": "other", "state": "ready"}
    assert [point.value for attributes, point in found["tenure.queue_jobs"] if attributes == ready] == [1]
    assert found["tenure.queue_oldest_age"][0][1].value >= 0
    assert found["tenure.outbox_relayed_jobs"][0][1].value == 2


def test_without_the_setting_nothing_is_recorded():
    READER.get_metrics_data()
    with Tenure("memory://") as app:
        app.job(name="greet")(lambda: None).enqueue()
        app.worker(burst=True).run()
    assert points() == {}


def test_without_the_package_jobs_run_unmeasured_with_a_warning(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "tenure.app.telemetry", raising=False)
    with Tenure("memory://", metrics="opentelemetry") as app:
        app.job(name="greet")(lambda: None).enqueue()
        app.worker(burst=True).run()
        assert app.backend.queues.counts()["default"]["done"] == 1
    assert "pip install 'tenure[otel]'" in caplog.text
