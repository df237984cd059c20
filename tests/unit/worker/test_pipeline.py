"""The pipeline turns a lease that may run into an attempt, and any other into its verdict."""

import logging
from datetime import UTC, datetime
from functools import cache

import pytest
from msgspec import structs

from tenure import Backoff, Job, Outcome
from tenure.backends.messages import SUSPECT, Abandon, Ack, Nack
from tenure.definition.handler import Registry, from_function
from tenure.errors import Unstorable
from tenure.events import Run
from tenure.guards.store import MemoryStore
from tenure.testing import FakeClock
from tenure.wire.envelope import Callbacks, Follower, Wire
from tenure.wire.signing import Key, Ring
from tenure.worker.guard_holder import GuardHolder
from tenure.worker.pipeline import JobDefaults, Pipeline
from tests.support.call_counter import calls_of


def ping(): ...


@pytest.fixture
def clock():
    return FakeClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
def registry():
    registry = Registry({"closed": []})
    registry.add(from_function("ping", ping, {}))
    return registry


@pytest.fixture
def pipeline(wire, registry, clock):
    defaults = JobDefaults(retry=Backoff("fixed", base=1.0), unknown_timeout=60.0, timeout=30.0)
    return Pipeline(wire, registry, clock, defaults)


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


def verdict_on(pipeline, lease):
    attempts, verdicts = pipeline.admit([lease])
    assert attempts == []
    return verdicts[0]


def test_a_good_message_becomes_an_attempt(pipeline, registry, lease_of):
    lease = lease_of(Job(handler="ping"), attempts=2, crashes=1, fence=4)

    (attempt,), verdicts = pipeline.admit([lease])

    assert verdicts == []
    assert attempt.handler is registry.get("ping")
    assert (attempt.number, attempt.crashes, attempt.fence, attempt.ticket) == (3, 1, 4, lease)


def test_a_batch_is_sorted_into_attempts_and_verdicts(pipeline, lease_of):
    attempts, verdicts = pipeline.admit([lease_of(), lease_of(body=b"garbage"), lease_of()])

    assert (len(attempts), len(verdicts)) == (2, 1)


def test_a_job_without_a_timeout_gets_that_of_the_settings(pipeline, lease_of):
    (attempt,), _ = pipeline.admit([lease_of(Job(handler="ping"))])

    assert attempt.timeout == 30.0


def test_the_timeout_of_a_job_goes_first(pipeline, lease_of):
    (attempt,), _ = pipeline.admit([lease_of(Job(handler="ping", timeout=5.0))])

    assert attempt.timeout == 5.0


def test_bytes_that_are_no_message_are_dead_at_once(pipeline, lease_of):
    lease = lease_of(body=b"garbage")

    verdict = verdict_on(pipeline, lease)

    assert isinstance(verdict, Abandon)
    assert (verdict.reason, verdict.charge, verdict.failure.type) == ("malformed", None, "Malformed")


def test_a_wrong_signature_is_dead_at_once(pipeline, lease_of):
    lease = lease_of()
    forged = lease.body[:-3] + (b"1" if lease.body[-3:-2] == b"0" else b"0") + lease.body[-2:]

    assert verdict_on(pipeline, lease_of(body=forged)).reason == "bad_signature"


def test_a_message_from_another_queue_is_dead_at_once(pipeline, lease_of):
    assert verdict_on(pipeline, lease_of(Job(handler="ping", queue="slow"), queue="fast")).reason == "bad_signature"


def test_a_handler_the_queue_does_not_allow_is_dead_at_once(pipeline, lease_of):
    assert verdict_on(pipeline, lease_of(Job(handler="ping", queue="closed"))).reason == "forbidden"


@pytest.mark.parametrize(("vanished", "charge"), [(3, "suspect"), (4, "suspect")])
def test_a_job_whose_broker_counted_enough_vanished_workers_becomes_a_suspect(pipeline, lease_of, vanished, charge):
    verdict = verdict_on(pipeline, lease_of(vanished=vanished))

    assert (type(verdict), verdict.charge, verdict.delay) == (Nack, charge, 0.0)


@pytest.mark.parametrize("vanished", [2, SUSPECT])
def test_a_job_below_that_count_or_leased_alone_runs(pipeline, lease_of, vanished):
    attempts, verdicts = pipeline.admit([lease_of(vanished=vanished)])

    assert (len(attempts), verdicts) == (1, [])


def test_an_unknown_handler_waits_for_a_deploy_at_no_cost(pipeline, lease_of):
    verdict = verdict_on(pipeline, lease_of(Job(handler="pong")))

    assert isinstance(verdict, Nack)
    assert (verdict.reason, verdict.charge, verdict.inconclusive) == ("unknown_handler", None, True)
    assert 5.0 <= verdict.delay <= 10.0


def test_an_unknown_key_waits_for_a_deploy_at_no_cost(registry, clock, lease_of):
    other = Wire(Ring([Key("k2", bytes(range(1, 33)))]))

    verdict = verdict_on(Pipeline(other, registry, clock, JobDefaults(retry=Backoff())), lease_of())

    assert (type(verdict), verdict.reason, verdict.charge) == (Nack, "unknown_key", None)


def test_a_newer_version_waits_for_a_deploy_at_no_cost(pipeline, lease_of):
    newer = lease_of().body.replace(b'{"v":1,', b'{"v":2,')

    verdict = verdict_on(pipeline, lease_of(body=newer))

    assert (type(verdict), verdict.reason, verdict.charge) == (Nack, "unsupported_version", None)


@pytest.mark.parametrize(("waited", "kind"), [(59, Nack), (60, Nack), (61, Abandon)])
def test_the_unknown_is_dead_once_it_has_waited_long_enough(pipeline, clock, lease_of, waited, kind):
    lease = lease_of(Job(handler="pong"))
    clock.advance(waited)

    assert type(verdict_on(pipeline, lease)) is kind


def test_a_job_that_crashed_too_often_does_not_run(pipeline, lease_of):
    assert verdict_on(pipeline, lease_of(crashes=4)).reason == "crash_loop"


def test_an_expired_job_does_not_run(pipeline, clock, lease_of):
    lease = lease_of(Job(handler="ping", expires_at=datetime(2030, 1, 1, 0, 1, tzinfo=UTC)))
    clock.advance(61)

    verdict = verdict_on(pipeline, lease)

    assert (type(verdict), verdict.state) == (Ack, "expired")


def test_an_outcome_is_concluded_with_the_policy_of_the_app(pipeline, lease_of):
    (attempt,), _ = pipeline.admit([lease_of(Job(handler="ping", max_retries=1))])

    verdict = pipeline.conclude(attempt, Outcome(kind="failed", started=0, seconds=0.1))

    run = Run("ping", 0, 0.1, 0.0, size=len(attempt.ticket.body))
    assert verdict == Nack(lease=attempt.ticket, delay=1.0, charge="attempt", reason="failed", run=run)


def test_a_job_that_cannot_run_here_is_warned_about_once_a_minute_for_each_queue_and_reason(
    pipeline, clock, lease_of, caplog
):
    caplog.set_level(logging.WARNING)

    def admit(queue):
        caplog.clear()
        pipeline.admit([lease_of(Job(handler="gone", queue=queue), due=clock.now())] * 3)
        return [record.getMessage() for record in caplog.records]

    (first,) = admit("default")
    assert "on queue 'default' cannot run in this worker" in first
    assert "(unknown_handler): no handler is registered under 'gone'" in first
    assert len(admit("other")) == 1
    clock.advance(59)
    assert admit("default") == []
    clock.advance(1)
    assert len(admit("default")) == 1


def test_a_missing_key_is_warned_about(registry, clock, lease_of, caplog):
    caplog.set_level(logging.WARNING)
    wire = Wire(Ring([Key("other", bytes(range(1, 33)))]))
    Pipeline(wire, registry, clock, JobDefaults(retry=Backoff())).admit([lease_of(Job(handler="ping"))])

    (record,) = caplog.records
    assert (record.levelname, record.queue, record.reason) == ("WARNING", "default", "unknown_key")


def test_a_job_that_waited_too_long_is_dead_and_not_warned_about(pipeline, clock, lease_of, caplog):
    caplog.set_level(logging.WARNING)
    lease = lease_of(Job(handler="gone"))
    clock.advance(61)

    assert isinstance(verdict_on(pipeline, lease), Abandon)
    assert caplog.records == []


class BrokenGuards(GuardHolder):
    """Guards that fail for some jobs in a way that no one foresaw."""

    def __init__(self, clock, error):
        super().__init__(MemoryStore(clock))
        self._failure = error

    def admit(self, attempts, now):
        if any(attempt.envelope.name == "bad" for attempt in attempts):
            raise self._failure
        return super().admit(attempts, now)


@pytest.mark.parametrize("error", [ValueError("garbage"), Unstorable("out of range"), RecursionError()], ids=repr)
def test_an_error_over_the_guards_of_one_job_is_the_end_of_that_job_alone(wire, registry, clock, lease_of, error):
    pipeline = Pipeline(wire, registry, clock, JobDefaults(retry=Backoff()), guards=BrokenGuards(clock, error))
    leases = [lease_of(Job(handler="ping", name=name), fence=n) for n, name in enumerate(("a", "bad", "b"))]

    attempts, (verdict,) = pipeline.admit(leases)

    assert [attempt.envelope.name for attempt in attempts] == ["a", "b"]
    assert (verdict.lease, verdict.reason, verdict.failure.type) == (leases[1], "unprocessable", type(error).__name__)


def test_an_error_while_one_message_is_opened_is_the_end_of_that_message_alone(pipeline, wire, lease_of, monkeypatch):
    leases = [lease_of(Job(handler="ping", name=name), fence=n) for n, name in enumerate(("a", "bad", "b"))]
    opened = wire.open

    def open_or_fail(sealed, queue, identifier):
        if b'"bad"' in sealed:
            raise MemoryError("no one foresaw this")
        return opened(sealed, queue, identifier)

    monkeypatch.setattr(wire, "open", open_or_fail)

    attempts, (verdict,) = pipeline.admit(leases)

    assert [attempt.envelope.name for attempt in attempts] == ["a", "b"]
    assert (verdict.lease, verdict.reason, verdict.failure.type) == (leases[1], "unprocessable", "MemoryError")


def test_a_job_whose_followers_cannot_be_made_is_dead_with_the_cause(registry, clock, lease_of):
    small = Wire(Ring([Key("k1", bytes(range(32)))]), max_bytes=900)
    pipeline = Pipeline(small, registry, clock, JobDefaults(retry=Backoff()))
    follower = Follower(small.envelope(Job(handler="ping", meta={"a": "x" * 300}), b"null", "", 0))
    parent = small.envelope(Job(handler="ping"), b"null", "id-1", 0, callbacks=Callbacks(then=(follower,)))
    lease = structs.replace(lease_of(Job(handler="ping")), id="id-1", body=small.seal_envelope(parent))
    (attempt,), _ = pipeline.admit([lease])
    pipeline._wire._max_bytes = 100

    verdict = pipeline.conclude(attempt, Outcome(kind="succeeded", started=0, seconds=0.0))

    assert isinstance(verdict, Abandon)
    assert (verdict.reason, verdict.failure.type, verdict.follow) == ("unprocessable", "InvalidPayload", ())


def test_a_plain_job_costs_three_calls_before_its_run_and_three_after_it(pipeline, lease_of):
    leases = [lease_of() for _ in range(100)]
    pipeline._wire.open = cache(pipeline._wire.open)
    attempts, _ = pipeline.admit(leases)

    before, _ = calls_of(lambda: pipeline.admit(leases))
    after, _ = calls_of(
        lambda: [pipeline.conclude(each, Outcome(kind="succeeded", started=0, seconds=0.1)) for each in attempts]
    )

    every = {name for name, count in before.items() if count >= 100}
    assert every == {"Pipeline._open", "Registry.resolve", "GuardRules.guards_of"}
    assert set(after) == {"Pipeline.conclude", "run_of", "decide"}
