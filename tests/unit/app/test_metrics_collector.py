"""Which metrics collector an app uses."""

import pytest

from tenure import Tenure
from tenure.errors import SettingsError
from tenure.metrics.collector import MemoryCollector, NoCollector


def run_one(app):
    @app.job
    def greet():
        return "hello"

    greet.enqueue()
    app.worker(burst=True).run()


def test_by_default_counts_are_kept_in_memory():
    assert isinstance(Tenure("memory://").metrics, MemoryCollector)


@pytest.mark.parametrize("setting", [None, "none"])
def test_none_disables_counting(setting):
    with Tenure("memory://", metrics=setting) as app:
        run_one(app)
        assert app.metrics.snapshot()["counters"] == {}


def test_an_empty_variable_disables_counting(monkeypatch):
    monkeypatch.setenv("TENURE_METRICS", "")
    assert isinstance(Tenure("memory://").metrics, NoCollector)


def test_a_collector_of_ones_own_is_told_what_workers_and_backends_do():
    class Collector:
        def __init__(self):
            self.names = set()

        def increment(self, name, value=1, **labels):
            self.names.add(name)

        def observe(self, name, value, **labels):
            self.names.add(name)

        def snapshot(self):
            return {}

    with Tenure("memory://", metrics=Collector()) as app:
        run_one(app)
        assert {"jobs_succeeded", "jobs_exec_seconds", "queue_enqueue_total", "queue_ack_total"} <= app.metrics.names


class GaugeCollector(MemoryCollector):
    """Takes gauges too, and fails if it is told to."""

    def __init__(self, error=None):
        super().__init__()
        self.gauges = {}
        self.error = error

    def gauge(self, name, value, **labels):
        if self.error:
            raise self.error
        self.gauges[name, *labels.values()] = value


def test_a_collector_that_takes_gauges_gets_those_of_the_queues_from_each_worker():
    with Tenure("memory://", metrics=GaugeCollector()) as app:
        app.job(name="wait")(lambda: None).using(queue="other").enqueue()
        run_one(app)
        assert app.metrics.gauges["tenure_backend_up",] == 1
        assert app.metrics.gauges["tenure_queue_jobs", "other", "ready"] == 1


def test_a_collector_that_fails_to_take_gauges_stops_no_worker(caplog):
    with Tenure("memory://", metrics=GaugeCollector(ValueError("full"))) as app:
        run_one(app)
        assert app.metrics.snapshot()["counters"]["jobs_succeeded|queue=default"] == 1
    assert "the gauges could not be passed to the collector" in caplog.text


def test_a_collector_may_be_named_by_the_setting(monkeypatch):
    assert isinstance(Tenure("memory://", metrics="tenure.metrics.collector:MemoryCollector").metrics, MemoryCollector)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("prometheus", "must be memory, opentelemetry, none, statsd://host:port or module:attribute"),
        ("no_such_module:Collector", "cannot load the collector .* ModuleNotFoundError"),
        ("tenure.events:Status", "cannot load the collector .* TypeError"),
        ("tenure.metrics.collector:MAX_SERIES", "has no increment and no observe and no snapshot"),
    ],
)
def test_a_collector_that_cannot_be_had_is_refused_in_plain_words(setting, complaint):
    with pytest.raises(SettingsError, match=complaint):
        Tenure("memory://", metrics=setting)


def test_an_object_that_is_no_collector_is_refused():
    with pytest.raises(SettingsError, match="it needs increment, observe, snapshot"):
        Tenure("memory://", metrics=object())


def test_a_collector_that_fails_does_not_keep_jobs_from_running(caplog):
    class Broken(NoCollector):
        def increment(self, name, value=1, **labels):
            raise ValueError("full")

    with Tenure("memory://", metrics=Broken()) as app:
        run_one(app)
        assert app.backend.queues.counts()["default"]["done"] == 1
    assert "the collector failed to increment" in caplog.text
