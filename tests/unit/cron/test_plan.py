"""The plan of one minute: what runs, what does not, and why."""

import pytest

from tenure.cron.builder import in_dependency_order
from tenure.cron.decision import plan
from tenure.errors import InvalidSchedule


def steps(schedules, moment, environment="production", only=()):
    found = plan(in_dependency_order(schedules), moment, environment, only)
    return [(step.schedule.name, step.action, step.why) for step in found]


def test_only_what_is_due_is_planned(schedule, at):
    assert steps([schedule("0 * * * *", "a"), schedule("30 * * * *", "b")], at(1, 1, 5, 30, 59)) == [
        ("b", "enqueue", None)
    ]


def test_a_schedule_without_a_queue_runs_inline(schedule, at):
    assert steps([schedule(inline=True)], at(1, 1)) == [("report", "run", None)]


def test_a_disabled_schedule_is_skipped(schedule, at):
    assert steps([schedule(job={"enabled": False})], at(1, 1)) == [("report", "skip", "disabled")]


def test_a_schedule_runs_in_its_environments_only(schedule, at):
    here = schedule(job={"environments": ("staging", "production")})

    assert steps([here], at(1, 1)) == [("report", "enqueue", None)]
    assert steps([here], at(1, 1), "development") == [
        ("report", "skip", "only in staging, production; this is development")
    ]


def test_a_dependent_comes_later_and_is_skipped_with_what_it_depends_on(schedule, at):
    declared = [
        schedule(name="report", job={"depends_on": ("load",)}),
        schedule(name="load", job={"depends_on": ("fetch",)}),
        schedule(name="fetch", job={"enabled": False}),
    ]

    assert steps(declared, at(1, 1)) == [
        ("fetch", "skip", "disabled"),
        ("load", "skip", "depends on 'fetch', which was skipped"),
        ("report", "skip", "depends on 'load', which was skipped"),
    ]


def test_a_dependency_that_is_not_due_holds_nothing_back(schedule, at):
    declared = [schedule("0 2 * * *", "load"), schedule("0 * * * *", "report", {"depends_on": ("load",)})]

    assert steps(declared, at(1, 1, 5)) == [("report", "enqueue", None)]


def test_named_schedules_are_planned_whenever_they_are_due(schedule, at):
    declared = [schedule("0 2 * * *", "load"), schedule("0 3 * * *", "report", {"depends_on": ("load",)})]

    assert steps(declared, at(1, 1, 5, 7), only=["report"]) == [("report", "enqueue", None)]


def test_an_unknown_name_is_refused(schedule, at):
    with pytest.raises(InvalidSchedule, match="no schedule is called 'laod'; there are: load"):
        steps([schedule(name="load")], at(1, 1), only=["laod"])
