"""Spans of enqueues and runs, and the trace that links them."""

import asyncio
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
from tenure.errors import BackendUnavailable, BadSignature, Malformed, Snooze
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


def greet_inside_a_request(app):
    """Enqueue inside a span, and run with a span inside the handler; returns the id of the job."""

    @app.job(queue="mail")
    def greet(ctx: Context, name: str = "Ann"):
        trace.get_tracer("mine").start_span("inner").end()

    with trace.get_tracer("mine").start_as_current_span("request"):
        id = greet.enqueue(name="Bo")
    app.worker("mail", burst=True).run()
    return id


@pytest.mark.parametrize("setting", [True, "link"])
def test_an_attempt_begins_a_trace_that_links_to_its_enqueue(spans, setting):
    with Tenure("memory://", tracing=setting) as app:
        greet_inside_a_request(app)
    found = spans()
    send, process = found["send mail"], found["process mail"]
    assert send.parent.span_id == found["request"].context.span_id
    assert process.parent is None
    assert [link.context.span_id for link in process.links] == [send.context.span_id]
    assert process.context.trace_id != send.context.trace_id
    assert found["inner"].parent.span_id == process.context.span_id


def test_an_attempt_is_in_the_trace_of_its_enqueue_if_the_setting_says_parent(spans):
    with Tenure("memory://", tracing="parent") as app:
        greet_inside_a_request(app)
    found = spans()
    process = found["process mail"]
    assert process.parent.span_id == found["send mail"].context.span_id
    assert not process.links
    assert len({span.context.trace_id for span in found.values()}) == 1


def test_spans_have_the_names_kinds_and_attributes_of_the_conventions(app, spans):
    id = greet_inside_a_request(app)
    found = spans()
    send, process = found["send mail"], found["process mail"]
    size = len(b'{"name":"Bo"}')
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    attributes = dict(send.attributes)
    assert attributes.pop("messaging.message.envelope.size") > size
    assert attributes == {
        "messaging.system": "tenure", "messaging.operation.name": "send", "messaging.operation.type": "send",
        "messaging.destination.name": "mail", "messaging.message.id": id, "messaging.message.body.size": size,
        "tenure.handler": "greet",
    }  # fmt: skip
    assert dict(process.attributes) == {
        "messaging.system": "tenure", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": "mail", "messaging.message.id": id, "messaging.message.body.size": size,
        "tenure.handler": "greet", "tenure.attempt": 1, "tenure.fence": 1,
    }  # fmt: skip
    assert process.instrumentation_scope.schema_url == "https://opentelemetry.io/schemas/1.44.0"


def test_an_enqueue_says_to_which_server_it_went(app, spans, server_url):
    greet = app.job(name="greet")(lambda: None)
    app.enqueue(greet.build(), backend=server_url)
    app.enqueue_many([greet.build()], backend=server_url)
    asyncio.run(app.aio.enqueue(greet.build(), backend=server_url))
    found = [span.attributes for span in KEPT.get_finished_spans()]
    assert [(each["server.address"], each["server.port"]) for each in found] == 3 * [("queue.internal", 6390)]


def test_an_enqueue_that_fails_says_with_which_error(app, spans):
    greet = app.job(name="greet")(lambda: None)
    app.backend.put = lambda messages: (_ for _ in ()).throw(BackendUnavailable("no server"))
    with pytest.raises(BackendUnavailable):
        greet.enqueue()
    assert spans()["send default"].attributes["error.type"] == "BackendUnavailable"


def test_a_job_that_runs_inside_another_span_links_to_it(spans):
    with Tenure("sync://", tracing="parent") as app:
        greet = app.job(name="greet")(lambda: None)
        job = greet.build()
        opened = app.open_backend()
        with trace.get_tracer("mine").start_as_current_span("earlier"):
            message = app._sealer.message(job, opened)
        with trace.get_tracer("mine").start_as_current_span("request"):
            opened.backend.put([message])
    found = spans()
    process = found["process default"]
    assert process.parent.span_id == found["earlier"].context.span_id
    assert [link.context.span_id for link in process.links] == [found["request"].context.span_id]


def test_async_handlers_and_batches_are_traced_too(app, spans):
    @app.job
    async def greet():
        pass

    app.enqueue_many([greet.build(), greet.build()])
    app.worker(burst=True).run()
    found = spans()
    send = found["send default"]
    assert send.attributes["messaging.batch.message_count"] == 2
    assert send.attributes["messaging.destination.name"] == "default"
    assert found["process default"].links[0].context.span_id == send.context.span_id


def test_async_callers_whose_jobs_are_sent_together_keep_their_own_traces(app, spans):
    greet = app.job(name="greet")(lambda: None)

    async def request(name):
        with trace.get_tracer("mine").start_as_current_span(name):
            return await greet.using(then=[greet.build()]).aenqueue()

    names = [f"request {number}" for number in range(5)]

    async def requests():
        return await asyncio.gather(*map(request, names))

    ids = asyncio.run(requests())
    app.worker(burst=True).run()
    found = spans()
    sent = {
        span.attributes["messaging.message.id"]: span for span in KEPT.get_finished_spans() if span.name[:4] == "send"
    }
    assert len(sent) == 5
    for id, name in zip(ids, names, strict=True):
        assert sent[id].parent.span_id == found[name].context.span_id
    linked = [span.links[0].context.span_id for span in KEPT.get_finished_spans() if span.name == "process default"]
    assert sorted(linked) == sorted(2 * [span.context.span_id for span in sent.values()])


def test_a_batch_for_several_queues_has_no_destination(app, spans):
    greet = app.job(name="greet")(lambda: None)
    app.enqueue_many([greet.build(), greet.using(queue="mail").build()])
    assert "messaging.destination.name" not in spans()["send"].attributes


def test_a_timeout_of_an_async_handler_is_named(app, spans):
    @app.job(timeout=0.05)
    async def sleep():
        await asyncio.sleep(60)

    sleep.enqueue()
    app.worker(burst=True).run()
    assert spans()["process default"].attributes["error.type"] == "TimedOut"


def test_the_hooks_of_a_handler_class_are_inside_the_span(app, spans):
    class Report:
        def before_run(self, ctx):
            trace.get_tracer("mine").start_span("before").end()
            raise ValueError("not today")

        def handle(self): ...

        def after_run(self, ctx, outcome):
            trace.get_tracer("mine").start_span("after").end()

    app.register("report", Report)
    app.define("report").dispatch()
    app.worker(burst=True).run()
    found = spans()
    process = found["process default"]
    assert process.attributes["error.type"] == "ValueError"
    assert {found[name].parent.span_id for name in ("before", "after")} == {process.context.span_id}


def test_a_failure_is_told_and_masked(app, spans):
    @app.job
    def fail():
        raise ValueError("password=swordfish")

    fail.enqueue()
    app.worker(burst=True).run()
    span = spans()["process default"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.events[0].attributes["exception.type"] == "ValueError"
    assert (span.attributes["error.type"], span.attributes["tenure.raised"]) == ("ValueError", "ValueError")
    assert "swordfish" not in span.to_json()


def test_a_handler_that_puts_its_job_off_has_not_failed(app, spans):
    @app.job
    def later():
        raise Snooze("1h")

    later.enqueue()
    app.worker(burst=True).run()
    span = spans()["process default"]
    assert (span.status.status_code, span.attributes["tenure.raised"]) == (StatusCode.UNSET, "Snooze")
    assert "error.type" not in span.attributes


def test_jobs_that_follow_link_to_the_enqueue_of_the_first(app, spans):
    @app.job
    def first():
        pass

    @app.job(queue="second")
    def second():
        pass

    first.using(then=[second.build()]).enqueue()
    app.worker("default", "second", burst=True).run()
    found = spans()
    assert found["process second"].links[0].context.span_id == found["send default"].context.span_id


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
    monkeypatch.delitem(sys.modules, "tenure.app.spans", raising=False)
    with Tenure("memory://", tracing=True) as app:
        app.job(name="greet")(lambda: None).enqueue()
        app.worker(burst=True).run()
        assert app.backend.queues.counts()["default"]["done"] == 1
    assert "pip install 'tenure[otel]'" in caplog.text


def test_importing_tenure_imports_no_opentelemetry(start, finish):
    (said,) = finish(start("import sys, tenure; tenure.Tenure('memory://'); print('opentelemetry' in sys.modules)"))
    assert said == "False\n"
