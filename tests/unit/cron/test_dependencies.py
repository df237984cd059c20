"""Dependencies: their order, the mistakes in them, and when a dependent may start."""

import pytest

from tenure.cron.builder import in_dependency_order
from tenure.cron.decision import DependencyCheck, DependencyState, check_dependencies
from tenure.errors import InvalidSchedule


@pytest.fixture
def declared(schedule):
    """Schedules from names and what they depend on."""

    def make(**needs):
        return [schedule(name=name, job={"depends_on": tuple(each.split())}) for name, each in needs.items()]

    return make


def names(schedules):
    return [schedule.name for schedule in schedules]


def test_schedules_without_dependencies_stay_as_declared(declared):
    assert names(in_dependency_order(declared(c="", a="", b=""))) == ["c", "a", "b"]


def test_a_dependent_comes_after_all_it_depends_on(declared):
    assert names(in_dependency_order(declared(report="load clean", load="fetch", clean="fetch", fetch=""))) == [
        *("fetch", "load", "clean", "report")
    ]


def test_a_dependency_named_twice_counts_once(declared):
    assert names(in_dependency_order(declared(b="a a", a=""))) == ["a", "b"]


def test_an_unknown_dependency_is_named_with_the_one_that_needs_it(declared):
    with pytest.raises(InvalidSchedule, match="'report' depends on 'laod', which is unknown; there are: load"):
        in_dependency_order(declared(report="laod", load=""))


def test_a_circle_is_shown_as_a_path(declared):
    with pytest.raises(InvalidSchedule, match="in a circle: b → c → d → b"):
        in_dependency_order(declared(a="b", b="c", c="d", d="b"))


def test_a_schedule_cannot_depend_on_itself(declared):
    with pytest.raises(InvalidSchedule, match="a → a"):
        in_dependency_order(declared(a="a"))


@pytest.mark.parametrize(
    ("fates", "expected"),
    [
        ({}, DependencyCheck("ready")),
        ({"load": DependencyState.SUCCEEDED, "clean": DependencyState.SUCCEEDED}, DependencyCheck("ready")),
        ({"load": DependencyState.SUCCEEDED, "clean": DependencyState.NOT_DUE}, DependencyCheck("ready")),
        (
            {"load": DependencyState.PENDING, "clean": DependencyState.SUCCEEDED},
            DependencyCheck("wait", "waits for 'load'"),
        ),
        (
            {"load": DependencyState.PENDING, "clean": DependencyState.PENDING},
            DependencyCheck("wait", "waits for 'load', 'clean'"),
        ),
        (
            {"load": DependencyState.PENDING, "clean": DependencyState.FAILED},
            DependencyCheck("skip", "depends on 'clean', which failed"),
        ),
        (
            {"load": DependencyState.SKIPPED, "clean": DependencyState.SUCCEEDED},
            DependencyCheck("skip", "depends on 'load', which was skipped"),
        ),
    ],
)
def test_a_dependent_starts_when_every_dependency_of_its_tick_has_succeeded(schedule, fates, expected):
    assert check_dependencies(schedule(job={"depends_on": ("load", "clean")}), fates) == expected
