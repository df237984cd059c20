"""What a row of a list says about a job."""

import pytest

from tenure.app.dashboard.job_now import Clause, Surroundings, now_of
from tenure.backends.messages import suspects_key
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.definition.context import Progress
from tenure.definition.failure import Failure
from tenure.events import Run

NOW = 1_800_000_000_000_000
AROUND = Surroundings(
    now=NOW, paused={"slow"}, served={"mail", "slow"}, workers={"j": "media-1:12:ab"}, started={"j": NOW - 4_100_000}
)
ALONE = Surroundings(now=NOW)
FAILURE = Failure(type="OSError", message="no ink", at=NOW, attempt=1)


def job(state="ready", **fields):
    given = {
        "id": "j", "queue": "mail", "handler": "send", "name": None, "priority": 5, "attempts": 0, "crashes": 0,
        "fence": 0, "enqueued_at": NOW - 9, "due_at": NOW - 9,
    }  # fmt: skip
    return JobRecord(**{**given, "state": state, **fields})


@pytest.mark.parametrize(
    ("record", "around", "clause"),
    [
        (job(), AROUND, Clause("waits for its turn")),
        (job(attempts=1), AROUND, Clause("waits for its turn, after 1 failure")),
        (job(queue="slow", attempts=2, crashes=1), AROUND, Clause("its queue is paused, after 3 failures")),
        (job(queue="lost"), AROUND, Clause("no worker listens on lost")),
        (job(queue="lost"), ALONE, Clause("waits for its turn")),
        (job("parked", waits_for="breaker:payments"), AROUND, Clause("waits for breaker payments")),
        (job("parked", waits_for="lock:report", attempts=1), AROUND, Clause("waits for lock report, after 1 failure")),
        (job("parked", waits_for="rate:queue:mail"), AROUND, Clause("waits for the rate of queue mail")),
        (job("parked", waits_for="other"), AROUND, Clause("waits for other")),
        (job("parked", waits_for=suspects_key("mail")), AROUND,
         Clause("waits for a process of its own: the last workers that had it vanished")),
        (job("delayed", due_at=NOW + 60, attempts=1), AROUND, Clause("next attempt at", to_datetime(NOW + 60))),
        (job("delayed", due_at=NOW + 60), AROUND, Clause("starts at", to_datetime(NOW + 60))),
        (job("delayed", due_at=NOW + 60, fence=1), AROUND, Clause("tried again at", to_datetime(NOW + 60))),
        (job("delayed", due_at=NOW - 1), AROUND, Clause("is due")),
        (job("leased", lease_until=NOW + 9), AROUND, Clause("runs", None, 4.1, "so far on media-1")),
        (job("leased", lease_until=NOW + 9), ALONE, Clause("runs")),
        (job("leased", lease_until=NOW + 9, progress=Progress(31, 50)), AROUND,
         Clause("62\N{NO-BREAK SPACE}%,", None, 4.1, "so far on media-1")),
        (job("leased", lease_until=NOW + 9, progress=Progress(31)), ALONE, Clause("31 done")),
        (job("leased", lease_until=NOW - 9), AROUND, Clause("its lease has expired")),
        (job("leased", lease_until=NOW + 9, cancel_asked=True), AROUND, Clause("is asked to stop,", rest="on media-1")),
        (job("done", run=Run("send", NOW, 0.84, worker="billing-1:7:cd")), AROUND,
         Clause("took", None, 0.84, "on billing-1")),
        (job("done", reason="skipped"), AROUND, Clause("skipped")),
        (job("dead", reason="retries_exhausted", failures=(FAILURE,)), AROUND, Clause("OSError: no ink")),
        (job("dead", reason="crash_loop", failures=(FAILURE,)), AROUND, Clause("crash_loop: OSError: no ink")),
        (job("dead", reason="unknown_handler"), AROUND, Clause("unknown_handler")),
        (job("cancelled", reason="cancelled on request"), AROUND, Clause("cancelled on request")),
        (job("expired"), AROUND, Clause("expired")),
    ],
)  # fmt: skip
def test_a_job_says_what_it_does(record, around, clause):
    assert now_of(record, around) == clause
