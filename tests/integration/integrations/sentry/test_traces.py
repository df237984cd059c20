"""Spans of enqueues and transactions of attempts in Sentry, and the trace that joins them."""

import asyncio

import pytest
import sentry_sdk
from opentelemetry.sdk.trace import TracerProvider

from tenure import Context, Snooze, Tenure
from tenure.integrations.sentry import instrument
from tenure.wire.envelope import peek


@pytest.fixture
def greet(app):
    @app.job(queue="mail", name="greet")
    def greet(name: str):
        sentry_sdk.start_span(op="own", name="inside").finish()

    return greet


def work(app):
    app.worker("mail", burst=True).run()


def transaction(sentry, op):
    (found,) = [each for each in sentry.transactions if each["contexts"]["trace"]["op"] == op]
    return found


def test_an_attempt_is_a_transaction_in_the_trace_of_its_enqueue(sentry, app, greet):
    with sentry_sdk.start_transaction(op="request", name="order"):
        id = greet.enqueue("Bo")
    work(app)
    request, attempt = transaction(sentry, "request"), transaction(sentry, "queue.process")
    (publish,) = request["spans"]
    trace = attempt["contexts"]["trace"]
    assert (attempt["transaction"], attempt["transaction_info"]["source"]) == ("greet", "task")
    assert (trace["trace_id"], trace["parent_span_id"]) == (publish["trace_id"], publish["span_id"])
    assert [span["op"] for span in attempt["spans"]] == ["own"]
    assert trace["status"] == "ok"
    assert attempt["tags"]["tenure.job_id"] == id


def test_the_spans_have_what_the_page_of_queues_reads(sentry, app, greet):
    with sentry_sdk.start_transaction(op="request", name="order"):
        id = greet.enqueue("Bo")
    work(app)
    (publish,) = transaction(sentry, "request")["spans"]
    size = len(b'{"name":"Bo"}')
    assert (publish["op"], publish["description"]) == ("queue.publish", "greet")
    sent = {key: value for key, value in publish["data"].items() if key.startswith("messaging.")}
    assert sent == {
        "messaging.system": "tenure", "messaging.destination.name": "mail", "messaging.message.id": id,
        "messaging.message.body.size": size,
    }  # fmt: skip
    data = transaction(sentry, "queue.process")["contexts"]["trace"]["data"]
    received = {key: value for key, value in data.items() if key.startswith("messaging.")}
    assert received.pop("messaging.message.receive.latency") >= 0
    assert received == {**sent, "messaging.message.retry.count": 0}


def test_the_latency_counts_from_when_the_job_could_start(sentry, clock_app):
    app, clock = clock_app
    app.job(queue="mail", name="greet")(lambda: None).using(delay="1m").enqueue()
    clock.advance(90)
    work(app)
    data = transaction(sentry, "queue.process")["contexts"]["trace"]["data"]
    assert data["messaging.message.receive.latency"] == pytest.approx(30_000, abs=1)


@pytest.fixture
def clock_app(clock):
    with Tenure("memory://", clock=clock) as app:
        instrument(app)
        yield app, clock


def test_a_retry_has_its_number_and_no_latency(sentry, app):
    @app.job(queue="mail", max_retries=1, backoff="none")
    def fail():
        raise ValueError

    fail.enqueue()
    work(app)
    first, second = (each["contexts"]["trace"] for each in sentry.transactions)
    assert [each["data"]["messaging.message.retry.count"] for each in (first, second)] == [0, 1]
    assert "messaging.message.receive.latency" not in second["data"]
    assert first["status"] == "internal_error"


def test_a_job_that_is_put_off_is_no_error_of_its_transaction(sentry, app):
    @app.job(queue="mail")
    def later():
        raise Snooze("1h")

    later.enqueue()
    work(app)
    assert transaction(sentry, "queue.process")["contexts"]["trace"]["status"] == "aborted"


def test_async_callers_whose_jobs_are_sent_together_keep_their_own_traces(sentry, app, greet):
    async def order():
        with sentry_sdk.start_transaction(op="request", name="order"):
            await asyncio.gather(*(greet.aenqueue(str(number)) for number in range(5)))

    asyncio.run(order())
    work(app)
    request = transaction(sentry, "request")
    published = {span["data"]["messaging.message.id"]: span for span in request["spans"]}
    attempts = [each for each in sentry.transactions if each["contexts"]["trace"]["op"] == "queue.process"]
    assert len(published) == len(attempts) == 5
    assert {span["parent_span_id"] for span in published.values()} == {request["contexts"]["trace"]["span_id"]}
    for attempt in attempts:
        publish = published[attempt["tags"]["tenure.job_id"]]
        assert attempt["contexts"]["trace"]["parent_span_id"] == publish["span_id"]


def test_a_batch_is_one_span(sentry, app, greet):
    with sentry_sdk.start_transaction(op="request", name="order"):
        app.enqueue_many(greet.build("Bo") for _ in range(3))
    (publish,) = transaction(sentry, "request")["spans"]
    assert publish["data"]["messaging.batch.message_count"] == 3
    assert publish["data"]["messaging.destination.name"] == "mail"


def test_outside_a_transaction_there_is_no_span_but_errors_are_in_one_trace(start, app):
    sentry = start({"traces_sample_rate": None})

    @app.job(queue="mail")
    def fail():
        raise ValueError

    fail.enqueue()
    sentry_sdk.capture_message("enqueued")
    work(app)
    asked, failed = sentry.events
    assert asked["contexts"]["trace"]["trace_id"] == failed["contexts"]["trace"]["trace_id"]
    assert sentry.transactions == []


def test_a_job_without_a_trace_begins_its_own(sentry, app, greet):
    with Tenure("memory://") as plain:
        plain.job(queue="mail", name="greet")(lambda name: None)
        envelopes = [peek(plain._sealer.message(greet.build("Bo"), app.open_backend()).body) for _ in range(2)]
    assert [str(envelope.trace) for envelope in envelopes] == ["UNSET", "UNSET"]
    for _ in range(2):
        app.backend.put([plain._sealer.message(greet.build("Bo"), app.open_backend())])
    work(app)
    ids = {each["contexts"]["trace"]["trace_id"] for each in sentry.transactions}
    assert len(ids) == 2


def test_the_trace_is_signed_in_the_message(sentry, app, greet):
    with sentry_sdk.start_transaction(op="request", name="order") as request:
        id = greet.enqueue("Bo")
        header = sentry_sdk.get_traceparent()
    trace = peek(app.backend.jobs.find(id).body).trace
    assert trace.sentry.split("-")[0] == header.split("-")[0] == request.trace_id
    assert trace.traceparent == f"00-{trace.sentry.split('-')[0]}-{trace.sentry.split('-')[1]}-01"
    assert f"sentry-trace_id={request.trace_id}" in trace.baggage


def test_sentry_and_opentelemetry_each_keep_their_own_trace(start):
    seen = []
    with Tenure("memory://", tracing="parent") as app:
        instrument(app)
        start()

        @app.job(queue="mail")
        def look(ctx: Context):
            seen.append(ctx.trace)

        tracer = TracerProvider().get_tracer("mine")
        with tracer.start_as_current_span("request") as span, sentry_sdk.start_transaction(op="request", name="order"):
            look.enqueue()
        work(app)
    (trace,) = seen
    assert trace.traceparent.split("-")[1] == format(span.get_span_context().trace_id, "032x")
    assert trace.sentry.split("-")[0] != trace.traceparent.split("-")[1]


def test_the_sampler_knows_the_job(start, app, greet):
    asked = []

    def sample(facts):
        asked.append(facts.get("tenure_job"))
        return 0

    sentry = start({"traces_sample_rate": None, "traces_sampler": sample})
    greet.enqueue("Bo")
    work(app)
    assert asked == [{"handler": "greet", "queue": "mail", "attempt": 1}]
    assert sentry.transactions == []


def test_a_client_that_streams_spans_still_reports_errors(start, app):
    sentry = start({"_experiments": {"trace_lifecycle": "stream"}})

    @app.job(queue="mail")
    def fail():
        raise ValueError

    fail.enqueue()
    work(app)
    assert len(sentry.events) == 1
