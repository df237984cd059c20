"""What follows from an outcome: done, retry, or dead."""

from datetime import UTC, datetime

import pytest

from tenure import Backoff, Job, Outcome
from tenure.backends.messages import Abandon, Ack, Nack
from tenure.definition.failure import Failure
from tenure.errors import MessageRejected
from tenure.events import Settlement, Status
from tenure.worker.pipeline import REASONS, decide, policy_for, refuse, settlement, status_of

NOW = 1_893_456_000_000_000
FAILURE = Failure("ValueError", "no", NOW, 1)
QUICK = Backoff("fixed", base=1.0)
SLOW = Backoff("fixed", base=60.0)


def outcome(kind, **facts):
    return Outcome(kind=kind, started=NOW, seconds=0.5, **facts)


def test_success_is_acked_with_its_output(attempt_of):
    attempt = attempt_of()

    verdict = decide(attempt, outcome("succeeded", output="sent"), QUICK)

    assert verdict == Ack(lease=attempt.ticket, seconds=0.5, output="sent")


def test_a_cancelled_job_ends_as_cancelled_with_its_reason(attempt_of):
    attempt = attempt_of()

    verdict = decide(attempt, outcome("cancelled", reason="too late"), QUICK)

    assert verdict == Ack(lease=attempt.ticket, state="cancelled", seconds=0.5, reason="too late")


def test_a_postponed_job_goes_back_uncharged_after_its_delay(attempt_of):
    attempt = attempt_of()

    verdict = decide(attempt, outcome("postponed", delay=30.0, reason="busy"), QUICK)

    assert verdict == Nack(lease=attempt.ticket, delay=30.0, reason="busy")


def test_an_interrupted_job_goes_back_uncharged_at_once(attempt_of):
    attempt = attempt_of()

    verdict = decide(attempt, outcome("interrupted", reason="interrupted"), QUICK)

    assert verdict == Nack(lease=attempt.ticket, reason="interrupted", inconclusive=True)


def test_a_job_killed_because_of_its_neighbour_goes_back_uncharged_at_once(attempt_of):
    attempt = attempt_of()

    verdict = decide(attempt, outcome("neighbour", reason="neighbour"), QUICK)

    assert verdict == Nack(lease=attempt.ticket, reason="neighbour", inconclusive=True)


@pytest.mark.parametrize(
    ("vanished", "suspect_after", "charge"),
    [(0, 3, "vanished"), (1, 3, "vanished"), (2, 3, "suspect"), (0, 1, "suspect")],
)
def test_a_job_that_may_have_killed_its_process_several_times_in_a_row_becomes_a_suspect(
    attempt_of, vanished, suspect_after, charge
):
    attempt = attempt_of(vanished=vanished)

    verdict = decide(
        attempt, outcome("vanished", failure=FAILURE, reason="vanished"), QUICK, suspect_after=suspect_after
    )

    assert verdict == Nack(lease=attempt.ticket, charge=charge, failure=FAILURE, reason="vanished")


@pytest.mark.parametrize(("crashes", "delay"), [(0, 0.0), (1, 1.0), (2, 1.0)])
def test_a_crash_is_charged_and_the_first_one_is_tried_again_at_once(attempt_of, crashes, delay):
    attempt = attempt_of(crashes=crashes)

    verdict = decide(attempt, outcome("crashed", failure=FAILURE, reason="crashed"), QUICK)

    assert verdict == Nack(lease=attempt.ticket, delay=delay, charge="crash", failure=FAILURE, reason="crashed")


@pytest.mark.parametrize(("max_crashes", "crashes"), [(3, 3), (0, 0), (1, 5)])
def test_a_crash_past_the_budget_is_dead_with_the_evidence(attempt_of, max_crashes, crashes):
    attempt = attempt_of(Job(handler="ping", max_crashes=max_crashes, max_retries=9), crashes=crashes)

    verdict = decide(attempt, outcome("crashed", failure=FAILURE, reason="crashed"), QUICK)

    assert verdict == Abandon(lease=attempt.ticket, reason="crash_loop", charge="crash", failure=FAILURE)


def test_an_unfit_payload_is_dead_at_once_however_many_retries_are_left(attempt_of):
    attempt = attempt_of(Job(handler="ping", max_retries=9))

    verdict = decide(attempt, outcome("unfit", failure=FAILURE), QUICK)

    assert verdict == Abandon(lease=attempt.ticket, reason="invalid_payload", failure=FAILURE)


@pytest.mark.parametrize("kind", ["failed", "timed_out", "retry"])
@pytest.mark.parametrize(("attempts", "max_retries"), [(0, 1), (0, 5), (4, 5)])
def test_a_failure_with_retries_left_goes_back_and_is_charged(attempt_of, kind, attempts, max_retries):
    attempt = attempt_of(Job(handler="ping", max_retries=max_retries), attempts=attempts)

    verdict = decide(attempt, outcome(kind, failure=FAILURE), QUICK)

    assert verdict == Nack(lease=attempt.ticket, delay=1.0, charge="attempt", failure=FAILURE, reason=kind)


@pytest.mark.parametrize(
    ("kind", "reason"), [("failed", "retries_exhausted"), ("timed_out", "timeout"), ("retry", "retries_exhausted")]
)
@pytest.mark.parametrize(("attempts", "max_retries"), [(0, 0), (1, 1), (5, 5), (7, 5)])
def test_a_failure_without_retries_left_is_dead(attempt_of, kind, reason, attempts, max_retries):
    attempt = attempt_of(Job(handler="ping", max_retries=max_retries), attempts=attempts)

    verdict = decide(attempt, outcome(kind, failure=FAILURE), QUICK)

    assert verdict == Abandon(lease=attempt.ticket, reason=reason, charge="attempt", failure=FAILURE)


@pytest.mark.parametrize("attempts", [0, 9])
def test_a_failure_that_no_retry_can_help_is_dead_at_once_with_its_reason(attempt_of, attempts):
    attempt = attempt_of(Job(handler="ping", max_retries=5), attempts=attempts)

    verdict = decide(attempt, outcome("failed", failure=FAILURE, reason="gave_up"), QUICK)

    assert verdict == Abandon(lease=attempt.ticket, reason="gave_up", charge="attempt", failure=FAILURE)


@pytest.mark.parametrize("delay", [0.0, 42.0])
def test_the_delay_a_handler_asked_for_goes_before_the_policy(attempt_of, delay):
    attempt = attempt_of(Job(handler="ping", max_retries=1))

    assert decide(attempt, outcome("retry", failure=FAILURE, delay=delay), QUICK).delay == delay


def test_the_policy_is_asked_for_the_number_of_the_retry(attempt_of):
    attempt = attempt_of(Job(handler="ping", max_retries=9), attempts=2)

    verdict = decide(attempt, outcome("failed", failure=FAILURE), Backoff(jitter=0.0))

    assert verdict.delay == 20.0


def test_without_other_policies_that_of_the_app_holds(attempt_of):
    assert policy_for(attempt_of(), SLOW) == SLOW


def test_the_policy_of_the_handler_goes_before_that_of_the_app(attempt_of):
    assert policy_for(attempt_of(retry=QUICK), SLOW) == QUICK


def test_the_policy_of_the_job_goes_before_all_others(attempt_of):
    attempt = attempt_of(Job(handler="ping", backoff=Backoff("none")), retry=QUICK)

    assert policy_for(attempt, SLOW) == Backoff("none")


class Asked:
    def delay(self, retry, error):
        return 60 * retry if error is None else "1h"


@pytest.mark.parametrize(("kind", "delay"), [("timed_out", 180.0), ("failed", 180.0)])
def test_a_policy_of_the_user_is_asked_without_an_error_where_the_handler_could_not_ask_it(attempt_of, kind, delay):
    attempt = attempt_of(Job(handler="ping", max_retries=9), retry=Asked(), attempts=2)

    assert decide(attempt, outcome(kind, failure=FAILURE), QUICK).delay == delay


def test_a_policy_of_the_user_is_asked_after_a_crash(attempt_of):
    attempt = attempt_of(retry=Asked(), crashes=2)

    assert decide(attempt, outcome("crashed", failure=FAILURE), QUICK).delay == 120.0


@pytest.mark.parametrize(("max_crashes", "crashes"), [(3, 4), (0, 1), (1, 2), (3, 99)])
def test_a_job_that_crashed_too_often_is_dead_as_a_crash_loop(attempt_of, max_crashes, crashes):
    attempt = attempt_of(Job(handler="ping", max_crashes=max_crashes), crashes=crashes)

    verdict = refuse(attempt.ticket, attempt.envelope, NOW)

    assert isinstance(verdict, Abandon)
    assert verdict.reason == "crash_loop"
    assert f"{crashes} workers vanished" in verdict.failure.message


@pytest.mark.parametrize(("max_crashes", "crashes"), [(3, 0), (3, 3), (0, 0), (5, 4)])
def test_a_job_within_its_crashes_may_run(attempt_of, max_crashes, crashes):
    attempt = attempt_of(Job(handler="ping", max_crashes=max_crashes), crashes=crashes)

    assert refuse(attempt.ticket, attempt.envelope, NOW) is None


@pytest.mark.parametrize("late", [0, 1, 10**9])
def test_a_job_past_its_expiry_ends_as_expired(attempt_of, late):
    attempt = attempt_of(Job(handler="ping", expires_at=datetime(2030, 1, 1, tzinfo=UTC)))

    verdict = refuse(attempt.ticket, attempt.envelope, NOW + late)

    assert verdict == Ack(lease=attempt.ticket, state="expired", reason="expired at 2030-01-01T00:00:00+00:00")


def test_a_job_before_its_expiry_may_run(attempt_of):
    attempt = attempt_of(Job(handler="ping", expires_at=datetime(2030, 1, 1, tzinfo=UTC)))

    assert refuse(attempt.ticket, attempt.envelope, NOW - 1) is None


@pytest.mark.parametrize(
    ("kind", "facts", "status", "failed"),
    [
        (Ack, {}, Status.ACKED, False),
        (Ack, {"state": "cancelled"}, Status.CANCELLED, False),
        (Ack, {"state": "expired"}, Status.EXPIRED, False),
        (Nack, {}, Status.POSTPONED, False),
        (Nack, {"charge": "attempt"}, Status.REQUEUED, True),
        (Nack, {"charge": "crash"}, Status.REQUEUED, True),
        (Nack, {"charge": "vanished"}, Status.POSTPONED, False),
        (Nack, {"charge": "suspect"}, Status.POSTPONED, False),
        (Abandon, {"reason": "retries_exhausted", "charge": "attempt"}, Status.DEAD_LETTERED, True),
        (Abandon, {"reason": "timeout", "charge": "attempt"}, Status.DEAD_LETTERED, True),
        (Abandon, {"reason": "gave_up", "charge": "attempt"}, Status.DEAD_LETTERED, True),
        (Abandon, {"reason": "crash_loop"}, Status.DEAD_LETTERED, False),
        (Abandon, {"reason": "unknown_handler"}, Status.DEAD_LETTERED, False),
        (Abandon, {"reason": "malformed"}, Status.REJECTED, False),
        (Abandon, {"reason": "bad_signature"}, Status.REJECTED, False),
        (Abandon, {"reason": "unknown_key"}, Status.REJECTED, False),
        (Abandon, {"reason": "unsupported_version"}, Status.REJECTED, False),
        (Abandon, {"reason": "forbidden"}, Status.REJECTED, False),
        (Abandon, {"reason": "invalid_payload"}, Status.REJECTED, False),
    ],
)
def test_each_verdict_has_its_status(lease_of, kind, facts, status, failed):
    verdict = kind(lease=lease_of(attempts=1), **facts)

    assert status_of(verdict) is status
    crashed = facts.get("charge") == "crash"
    reason = facts.get("reason")
    assert settlement(verdict) == Settlement("id-1", "default", status, 2, reason, failed, crashed=crashed)


def test_listeners_learn_the_error_of_a_failure(lease_of):
    failure = Failure(type="ValueError", message="no luck", at=0, attempt=1)

    assert settlement(Nack(lease=lease_of(), charge="attempt", failure=failure)).error == "ValueError: no luck"
    assert settlement(Ack(lease=lease_of())).error is None


@pytest.mark.parametrize("error", MessageRejected.__subclasses__())
def test_every_reason_to_reject_a_message_is_a_known_one(error):
    assert error.reason in REASONS
