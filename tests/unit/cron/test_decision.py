"""What happens to a tick that is due."""

import pytest

from tenure.backends.ledger import ALL_SCHEDULES, TickRecord
from tenure.cron.decision import DEPENDENCY_TIMEOUT, DependencyState, decide, dependency_state, reason_to_skip
from tenure.cron.publisher import end_event
from tenure.cron.schedule import is_tick_id, tick_id
from tenure.cron.tick_recorder import settlement_note
from tenure.definition.job import new_id
from tenure.events import Settlement, Status, TickFailed, TickSkipped, TickSucceeded


@pytest.mark.parametrize(
    ("overlap", "fate", "earlier", "state"),
    [
        ("allow", None, 5, "enqueued"),
        ("skip", None, 0, "enqueued"),
        ("skip", None, 1, "skipped"),
        ("queue_one", None, 1, "waiting"),
        ("queue_one", None, 2, "skipped"),
        ("allow", DependencyState.PENDING, 0, "waiting"),
        ("allow", DependencyState.SUCCEEDED, 0, "enqueued"),
        ("allow", DependencyState.NOT_DUE, 0, "enqueued"),
        ("allow", DependencyState.FAILED, 0, "skipped"),
        ("queue_one", DependencyState.SKIPPED, 1, "skipped"),
        ("queue_one", DependencyState.PENDING, 1, "waiting"),
        ("skip", DependencyState.PENDING, 1, "skipped"),
    ],
)
def test_dependencies_come_first_and_then_overlap(schedule, overlap, fate, earlier, state):
    needs = {"depends_on": ("load",)} if fate else {}
    found = schedule("@hourly", "report", needs, overlap=overlap)
    assert decide(found, {"load": fate} if fate else {}, earlier, None)[0] == state


def test_an_obstacle_comes_before_everything(schedule):
    found = schedule("@hourly", "report", {"depends_on": ("load",)})
    assert decide(found, {"load": DependencyState.FAILED}, 3, "paused") == ("skipped", "paused")


def test_what_is_inline_runs_here(schedule):
    assert decide(schedule("@hourly", inline=True), {}, 0, None) == ("running", None)


def test_obstacles_are_told_the_most_lasting_first(schedule):
    off = schedule("@hourly", "report", {"enabled": False})
    assert reason_to_skip(off, "production", {ALL_SCHEDULES, "report"}) == "disabled"
    assert reason_to_skip(schedule("@hourly"), "production", {ALL_SCHEDULES, "report"}) == "all schedules are paused"
    assert reason_to_skip(schedule("@hourly"), "production", {"report"}) == "paused"
    assert reason_to_skip(schedule("@hourly"), "production", {"other"}) is None


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        ("intended", DependencyState.PENDING),
        ("waiting", DependencyState.PENDING),
        ("enqueued", DependencyState.PENDING),
        ("running", DependencyState.PENDING),
        ("succeeded", DependencyState.SUCCEEDED),
        ("failed", DependencyState.FAILED),
        ("skipped", DependencyState.SKIPPED),
    ],
)
def test_a_dependency_is_what_the_ledger_says(schedule, at, state, fate):
    tick = at(1, 1, 1)
    record = TickRecord(id="x", schedule="report", tick=tick, due=tick, state=state)
    assert dependency_state(schedule("@hourly"), tick, record, "production", tick) is fate


def test_a_dependency_that_nobody_entered_is_waited_for_if_it_is_due_and_not_for_ever(schedule, at):
    found, tick = schedule("@hourly"), at(1, 1, 1)
    assert dependency_state(found, tick, None, "production", tick) is DependencyState.PENDING
    assert dependency_state(found, tick, None, "production", tick + DEPENDENCY_TIMEOUT + 1) is DependencyState.SKIPPED
    assert dependency_state(found, tick + 60_000_000, None, "production", tick) is DependencyState.NOT_DUE
    assert (
        dependency_state(schedule("@hourly", "off", {"enabled": False}), tick, None, "production", tick)
        is DependencyState.SKIPPED
    )


def test_the_id_of_a_tick_is_known_again(at):
    ids = [tick_id(f"schedule {number}", at(1, 1, number % 24)) for number in range(200)]
    assert len(set(ids)) == 200
    assert all(map(is_tick_id, ids))
    assert sum(is_tick_id(new_id()) for _ in range(20_000)) < 60


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
    note = settlement_note(Settlement("id", "default", status, 1, None, False))
    assert (note and note.state) == state


def test_each_end_is_an_event_of_its_own():
    record = TickRecord(id="x", schedule="s", tick=7, due=7, state="succeeded", why="w")
    ends = [end_event(TickRecord(id="x", schedule="s", tick=7, due=7, state=state, why="w")) for state in STATES]
    assert ends == [None, TickSucceeded("s", 7, "x"), TickFailed("s", 7, "x", "w"), TickSkipped("s", 7, "w")]
    assert end_event(record) == TickSucceeded("s", 7, "x")


STATES = ("enqueued", "succeeded", "failed", "skipped")
