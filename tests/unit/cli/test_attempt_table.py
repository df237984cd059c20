"""The attempts of one job, as a table."""

from datetime import UTC, datetime

from tenure.cli.attempt_table import attempt_rows

AT, LATER = datetime(2026, 3, 29, 12, tzinfo=UTC), datetime(2026, 3, 29, 13, tzinfo=UTC)
RUN = {"started": AT, "seconds": 1.5, "worker": "host:1:a"}


def failure(attempt, **given):
    found = {"attempt": attempt, "type": "OSError", "message": "off", "place": "shop.py:3", "at": LATER}
    return {**found, "worker": "host:1:a", "run": RUN, **given}


def test_each_attempt_has_its_start_duration_worker_outcome_and_error():
    details = {"state": "dead", "run": None, "failures": [failure(1), failure(2, run=None, place=None)]}
    assert attempt_rows(details) == [
        [1, AT, 1.5, "host:1:a", "retried", "OSError: off (shop.py:3)"],
        [2, LATER, None, "host:1:a", "dead", "OSError: off"],
    ]


def test_the_last_attempt_of_a_job_that_is_done_succeeded():
    details = {"state": "done", "run": RUN, "failures": [failure(1)]}
    assert [row[4] for row in attempt_rows(details)] == ["retried", "done"]


def test_a_job_that_never_ran_has_no_attempts():
    assert attempt_rows({"state": "ready", "run": None, "failures": []}) == []
