"""What becomes of a tick that is due."""

import pytest

from tenure.backends.ledger import EVERY, TickRecord
from tenure.cron.decision import PATIENCE, decide, fate_of, obstacle_of
from tenure.cron.dependencies import Fate
from tenure.cron.occurrence import is_tick, job_id
from tenure.cron.outcomes import ending, noted
from tenure.definition.identity import new_id
from tenure.events import Settlement, Status, TickFailed, TickSkipped, TickSucceeded


@pytest.mark.parametrize(
    ("overlap", "fate", "earlier", "state"),
    [
        ("allow", None, 5, "enqueued"),
        ("skip", None, 0, "enqueued"),
        ("skip", None, 1, "skipped"),
        ("queue_one", None, 1, "waiting"),
        ("queue_one", None, 2, "skipped"),
        ("allow", Fate.PENDING, 0, "waiting"),
        ("allow", Fate.SUCCEEDED, 0, "enqueued"),
        ("allow", Fate.NOT_DUE, 0, "enqueued"),
        ("allow", Fate.FAILED, 0, "skipped"),
        ("queue_one", Fate.SKIPPED, 1, "skipped"),
        ("queue_one", Fate.PENDING, 1, "waiting"),
        ("skip", Fate.PENDING, 1, "skipped"),
    ],
)
def test_dependencies_come_first_and_then_overlap(schedule, overlap, fate, earlier, state):
    needs = {"depends_on": ("load",)} if fate else {}
    found = schedule("@hourly", "report", needs, overlap=overlap)
    assert decide(found, {"load": fate} if fate else {}, earlier, None)[0] == state


def test_an_obstacle_comes_before_everything(schedule):
    found = schedule("@hourly", "report", {"depends_on": ("load",)})
    assert decide(found, {"load": Fate.FAILED}, 3, "paused") == ("skipped", "paused")


def test_what_is_inline_runs_here(schedule):
    assert decide(schedule("@hourly", inline=True), {}, 0, None) == ("running", None)


def test_obstacles_are_told_the_most_lasting_first(schedule):
    off = schedule("@hourly", "report", {"enabled": False})
    assert obstacle_of(off, "production", {EVERY, "report"}) == "disabled"
    assert obstacle_of(schedule("@hourly"), "production", {EVERY, "report"}) == "all schedules are paused"
    assert obstacle_of(schedule("@hourly"), "production", {"report"}) == "paused"
    assert obstacle_of(schedule("@hourly"), "production", {"other"}) is None


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        ("intended", Fate.PENDING),
        ("waiting", Fate.PENDING),
        ("enqueued", Fate.PENDING),
        ("running", Fate.PENDING),
        ("succeeded", Fate.SUCCEEDED),
        ("failed", Fate.FAILED),
        ("skipped", Fate.SKIPPED),
    ],
)
def test_a_dependency_is_what_the_ledger_says(schedule, at, state, fate):
    tick = at(1, 1, 1)
    record = TickRecord(id="x", schedule="report", tick=tick, due=tick, state=state)
    assert fate_of(schedule("@hourly"), tick, record, "production", tick) is fate


def test_a_dependency_that_nobody_entered_is_waited_for_if_it_is_due_and_not_for_ever(schedule, at):
    found, tick = schedule("@hourly"), at(1, 1, 1)
    assert fate_of(found, tick, None, "production", tick) is Fate.PENDING
    assert fate_of(found, tick, None, "production", tick + PATIENCE + 1) is Fate.SKIPPED
    assert fate_of(found, tick + 60_000_000, None, "production", tick) is Fate.NOT_DUE
    assert fate_of(schedule("@hourly", "off", {"enabled": False}), tick, None, "production", tick) is Fate.SKIPPED


def test_the_id_of_a_tick_is_known_again(at):
    ids = [job_id(f"schedule {number}", at(1, 1, number % 24)) for number in range(200)]
    assert len(set(ids)) == 200
    assert all(map(is_tick, ids))
    assert sum(is_tick(new_id()) for _ in range(20_000)) < 60


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (Status.ACKED, "succeeded"),
        (Status.SKIPPED_IDEMPOTENT, "succeeded"),
        (Status.DEAD_LETTERED, "failed"),
        (Status.REJECTED, "failed"),
        (Status.CANCELLED, "failed"),
        (Status.EXPIRED, "failed"),
        (Status.REQUEUED, None),
        (Status.POSTPONED, None),
    ],
)
def test_only_the_end_of_a_job_ends_its_tick(status, state):
    note = noted(Settlement("id", "default", status, 1, None, False))
    assert (note and note.state) == state


def test_each_end_is_an_event_of_its_own():
    record = TickRecord(id="x", schedule="s", tick=7, due=7, state="succeeded", why="w")
    ends = [ending(TickRecord(id="x", schedule="s", tick=7, due=7, state=state, why="w")) for state in STATES]
    assert ends == [None, TickSucceeded("s", 7, "x"), TickFailed("s", 7, "x", "w"), TickSkipped("s", 7, "w")]
    assert ending(record) == TickSucceeded("s", 7, "x")


STATES = ("enqueued", "succeeded", "failed", "skipped")
