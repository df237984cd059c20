"""Many jobs sealed together make the same messages as each job sealed alone, with less work."""

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure import Backoff, Job, Tenure
from tenure.errors import ForbiddenHandler, InvalidJob, InvalidPayload, UnknownHandler
from tenure.testing import FakeClock
from tenure.wire.envelope import Wire

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
OPTIONS = {
    "nothing": {},
    "queue": {"queue": "slow"},
    "an alias": {"queue": "Fast"},
    "name": {"name": 'a,"identifier":"x","payload":'},
    "another name": {"name": "\\"},
    "priority": {"priority": 8},
    "max_retries": {"max_retries": 3},
    "timeout": {"timeout": 30.0},
    "delay": {"delay": 5.0},
    "at": {"at": NOON},
    "expires_at": {"expires_at": NOON},
    "single_instance": {"single_instance": True, "name": "one"},
    "idempotency_key": {"idempotency_key": "é☃", "idempotency_ttl": 60.0},
    "limits": {"key": "tenant", "at_most": 2, "rate": "10/s", "breaker": "stripe"},
    "unique": {"unique": "a"},
    "another unique": {"unique": "b", "duplicate": "refuse"},
    "backoff": {"backoff": Backoff("fixed", base=1.0)},
    "max_crashes": {"max_crashes": 1},
    "meta": {"meta": {"a": 1}},
    "equal meta": {"meta": {"a": True}},
    "follower": {"then": (Job(handler="add", payload={"a": 1, "b": 1}),)},
    "equal follower": {"then": (Job(handler="add", payload={"a": 1.0, "b": 1}),)},
    "not sent": {"cron": "* * * * *", "enabled": False},
}


@pytest.fixture(scope="module")
def app():
    with Tenure("memory://", clock=FakeClock(), audience="tests", allow={"locked": []}) as app:
        app.queues.alias("fast", "express")

        @app.job
        def add(a: float = 0, b: int = 0, text: str = "") -> None: ...

        @app.job(payload_version=2, upcasters={1: lambda payload: payload})
        def other(items: list[str]) -> None: ...

        yield app


def sealed(app, jobs):
    """The messages of jobs with ids, sealed together and each alone, at the same time."""
    sealer, opened = app._sealer, app.open_backend()
    return sealer.messages(jobs, opened), [sealer.message(job, opened) for job in jobs]


def test_jobs_with_any_options_in_any_order_are_sealed_as_if_alone(app):
    numbers = itertools.count()
    jobs = [
        Job(handler="add", payload={"a": 1, "b": next(numbers)}, id=f"id-{next(numbers)}", **OPTIONS[name])
        for pair in itertools.product(OPTIONS, repeat=2)
        for name in (*pair, pair[1])
    ]

    together, alone = sealed(app, jobs)

    assert together == alone


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "other"]),
            st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
            st.text(max_size=30),
        ),
        max_size=6,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_names_ids_and_payloads_are_sealed_as_if_alone(app, drawn):
    jobs = [
        Job(handler=handler, name=name, id=id, payload={"text": text} if handler == "add" else {"items": [text]})
        for handler, name, id, text in drawn
    ]

    together, alone = sealed(app, jobs)

    assert together == alone


def test_a_thousand_jobs_of_two_handlers_make_an_envelope_for_each_handler_and_read_the_clock_once(app, monkeypatch):
    made, readings = [], []
    envelope, now = Wire.envelope, app.clock.now
    monkeypatch.setattr(Wire, "envelope", lambda *given: made.append(given) or envelope(*given))
    monkeypatch.setattr(app.clock, "now", lambda: readings.append(0) or now())
    pair = [Job(handler="add", payload={"a": 1}), Job(handler="other", payload={"items": []})]

    messages = app._sealer.messages(pair * 500, app.open_backend())

    assert (len(messages), len(made), len(readings)) == (1000, 2, 1)


def test_new_ids_grow_in_the_order_of_the_jobs_and_given_ids_are_kept(app):
    jobs = [Job(handler="add", payload={}, id=id) for id in (None, "mine", None)]

    first, given, last = app._sealer.messages(jobs, app.open_backend())

    assert (first.id < last.id, given.id) == (True, "mine")
    assert all(message.id.encode() in message.body for message in (first, given, last))


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"a": "1"}, "does not fit its handler"),
        ({"unknown": 1}, "does not fit its handler"),
        ({"a": float("nan")}, "JSON has no such number"),
        ({"text": "\ud800"}, "surrogates not allowed"),
        ({"text": "x" * 300_000}, "above the limit"),
    ],
)
def test_each_payload_is_checked(app, payload, message):
    jobs = [Job(handler="add", payload=each) for each in ({}, {}, payload)]

    with pytest.raises(InvalidPayload, match=message):
        app._sealer.messages(jobs, app.open_backend())


def test_the_levels_of_each_payload_are_counted():
    with Tenure("memory://") as app:

        @app.job
        def take(value) -> None: ...

        deep, deeper = [], []
        for levels, value in ((62, deep), (63, deeper)):
            for _ in range(levels - 1):
                value.append(value := [])
        app.enqueue_many([take.build(value=[]), take.build(value=deep)])
        with pytest.raises(InvalidPayload, match="nested deeper than 64 levels"):
            app.enqueue_many([take.build(value=[]), take.build(value=deeper)])


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (Job(handler="add", queue="locked"), ForbiddenHandler),
        (Job(handler="nothing"), UnknownHandler),
        (Job(handler="add", then=(Job(handler="add", payload={}, id="x"),)), InvalidJob),
    ],
)
def test_a_job_that_may_not_be_sent_is_refused_after_one_that_may(app, job, error):
    with pytest.raises(error):
        app._sealer.messages([Job(handler="add", payload={}), job.replace(payload={})], app.open_backend())
