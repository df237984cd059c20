"""What a guard means now, in words."""

import pytest

from tenure.app.guards import GuardRecord
from tenure.guards.states import Bucket, Circuit, Claimed, Done, Hold, Paused, Slots

NOW = 1_000_000_000
SECOND = 1_000_000
HELD = Hold("job-1", 1, NOW + 9 * SECOND, NOW)
LAPSED = Hold("job-2", 1, NOW - SECOND, NOW)


@pytest.mark.parametrize(
    ("state", "text", "jobs"),
    [
        (Slots(3, (HELD, LAPSED)), "1 of 3 held", ("job-1",)),
        (Claimed(HELD), "claimed by a job that has not succeeded yet", ("job-1",)),
        (Claimed(LAPSED), "its claim has lapsed", ()),
        (Done("job-3"), "done: later jobs with this key do not run", ("job-3",)),
        (Bucket(60 * SECOND, 2, NOW + 60 * SECOND), "1 of 2 used; the next start is in 0.0 s", ()),
        (Bucket(60 * SECOND, 2, NOW + 120 * SECOND), "2 of 2 used; the next start is in 60.0 s", ()),
        (Circuit(2, 0, None), "closed after 2 failures in a row", ()),
        (Circuit(5, NOW + SECOND, None), "open after 5 failures in a row; it lets a probe through in 1.0 s", ()),
        (Circuit(5, NOW, HELD), "half-open: the next call decides", ("job-1",)),
        (Paused(NOW, "deploy"), "paused: deploy", ()),
        (Paused(NOW), "paused", ()),
        (None, "free", ()),
    ],
)
def test_a_guard_says_what_it_means_and_who_holds_it(state, text, jobs):
    record = GuardRecord("lock:a:b", state, waiting=False, now=NOW)
    assert (record.kind, record.text(), record.jobs) == ("lock", text, jobs)


def test_the_guard_of_a_drained_worker_says_that_it_drains():
    record = GuardRecord("drain:host:1:a", Paused(NOW, "disk"), waiting=False, now=NOW)
    assert (record.kind, record.text()) == ("drain", "draining: disk")
