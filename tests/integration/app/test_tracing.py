"""Spans of enqueues and runs, and the trace that links them."""

import sys

import pytest
from msgspec import structs
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tenure import Context, Tenure
from tenure.definition.context import Trace
from tenure.errors import BadSignature, Malformed, Snooze
from tenure.wire.envelope import peek

KEPT = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(KEPT))


@pytest.fixture(scope="module", autouse=True)
def _provider():
    if trace.get_tracer_provider() is not PROVIDER:  # xdist may run tests of this file in two parts
        trace.set_tracer_provider(PROVIDER)  # of the process: it can be set once
    assert trace.get_tracer_provider() is PROVIDER


@pytest.fixture
def spans():
    """The spans that have ended, by name."""
    KEPT.clear()
    return lambda: {span.name: span for span in KEPT.get_finished_spans()}


@pytest.fixture
def app():
    with Tenure("memory://", tracing=True) as app:
        yield app


def test_a_run_is_in_the_trace_of_its_enqueue(app, spans):
    @app.job(queue="mail")
    def greet(ctx: Context):
        trace.get_tracer("mine").start_span("inner").end()

    with trace.get_tracer("mine").start_as_current_span("request"):
        id = greet.enqueue()
    app.worker("mail", burst=True).run()
    found = spans()
    send, process = found["send mail"], found["process mail"]
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert send.parent.span_id == found["request"].context.span_id
    assert process.parent.span_id == process.links[0].context.span_id == send.context.span_id
    assert {span.context.trace_id for span in found.values()} == {send.context.trace_id}
    assert found["inner"].parent.span_id == process.context.span_id
    assert send.attributes["messaging.message.id"] == process.attributes["messaging.message.id"] == id
    assert (process.attributes["tenure.handler"], process.attributes["tenure.attempt"]) == ("greet", 1)


def test_async_handlers_and_batches_are_traced_too(app, spans):
    @app.job
    async def greet():
        pass

    app.enqueue_many([greet.build(), greet.build()])
    app.worker(burst=True).run()
    found = spans()
    assert found["send"].attributes["messaging.batch.message_count"] == 2
    assert found["process default"].parent.span_id == found["send"].context.span_id


def test_a_failure_is_told_and_masked(app, spans):
    @app.job
    def fail():
        raise ValueError("password=swordfish")

    fail.enqueue()
    app.worker(burst=True).run()
    span = spans()["process default"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.events[0].attributes["exception.type"] == "ValueError"
    assert "swordfish" not in span.to_json()


def test_a_handler_that_puts_its_job_off_has_not_failed(app, spans):
    @app.job
    def later():
        raise Snooze("1h")

    later.enqueue()
    app.worker(burst=True).run()
    span = spans()["process default"]
    assert (span.status.status_code, span.attributes["tenure.raised"]) == (StatusCode.UNSET, "Snooze")


def test_jobs_that_follow_stay_in_the_trace(app, spans):
    @app.job
    def first():
        pass

    @app.job(queue="second")
    def second():
        pass

    first.using(then=[second.build()]).enqueue()
    app.worker("default", "second", burst=True).run()
    found = spans()
    assert found["process second"].context.trace_id == found["send default"].context.trace_id


def test_the_trace_is_under_the_seal(app, spans):
    @app.job
    def greet():
        pass

    body = app.backend.jobs.find(greet.enqueue()).body
    parent = peek(body).trace.traceparent
    assert parent.split("-")[2] == format(spans()["send default"].context.span_id, "016x")
    wire = app.open_backend().wire
    with pytest.raises(BadSignature):
        wire.open(body.replace(parent.encode(), parent.replace("00-", "01-", 1).encode()), "default")


def test_a_trace_that_is_too_long_is_refused(app):
    wire = app.open_backend().wire
    job = app.job(name="greet")(lambda: None).build()
    envelope = wire.envelope(job, b"{}", "id-1", app.clock.now())
    sealed = wire.seal_envelope(structs.replace(envelope, trace=Trace("00-1-2-01", "x" * 513)))
    with pytest.raises(Malformed, match="trace"):
        wire.open(sealed, "default")


def test_without_the_setting_nothing_is_traced(spans):
    with Tenure("memory://") as app:
        greet = app.job(name="greet")(lambda: None)
        with trace.get_tracer("mine").start_as_current_span("request"):
            body = app.backend.jobs.find(greet.enqueue()).body
        app.worker(burst=True).run()
    assert b"trace" not in body
    assert set(spans()) == {"request"}


def test_without_the_package_jobs_run_untraced_with_a_warning(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with Tenure("memory://", tracing=True) as app:
        app.job(name="greet")(lambda: None).enqueue()
        app.worker(burst=True).run()
        assert app.backend.queues.counts()["default"]["done"] == 1
    assert "pip install 'tenure[otel]'" in caplog.text


def test_importing_tenure_imports_no_opentelemetry(start, finish):
    (said,) = finish(start("import sys, tenure; tenure.Tenure('memory://'); print('opentelemetry' in sys.modules)"))
    assert said == "False\n"
