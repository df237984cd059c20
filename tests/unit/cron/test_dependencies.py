"""Dependencies: their order, the mistakes in them, and when a dependent may start."""

import pytest

from tenure.cron.dependencies import Fate, Hold, hold, in_order
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
    assert names(in_order(declared(c="", a="", b=""))) == ["c", "a", "b"]


def test_a_dependent_comes_after_all_it_depends_on(declared):
    assert names(in_order(declared(report="load clean", load="fetch", clean="fetch", fetch=""))) == [
        *("fetch", "load", "clean", "report")
    ]


def test_a_dependency_named_twice_counts_once(declared):
    assert names(in_order(declared(b="a a", a=""))) == ["a", "b"]


def test_an_unknown_dependency_is_named_with_the_one_that_needs_it(declared):
    with pytest.raises(InvalidSchedule, match="'report' depends on 'laod', which is unknown; there are: load"):
        in_order(declared(report="laod", load=""))


def test_a_circle_is_shown_as_a_path(declared):
    with pytest.raises(InvalidSchedule, match="in a circle: b → c → d → b"):
        in_order(declared(a="b", b="c", c="d", d="b"))


def test_a_schedule_cannot_depend_on_itself(declared):
    with pytest.raises(InvalidSchedule, match="a → a"):
        in_order(declared(a="a"))


@pytest.mark.parametrize(
    ("fates", "expected"),
    [
        ({}, Hold("ready")),
        ({"load": Fate.SUCCEEDED, "clean": Fate.SUCCEEDED}, Hold("ready")),
        ({"load": Fate.SUCCEEDED, "clean": Fate.NOT_DUE}, Hold("ready")),
        ({"load": Fate.PENDING, "clean": Fate.SUCCEEDED}, Hold("wait", "waits for 'load'")),
        ({"load": Fate.PENDING, "clean": Fate.PENDING}, Hold("wait", "waits for 'load', 'clean'")),
        ({"load": Fate.PENDING, "clean": Fate.FAILED}, Hold("skip", "depends on 'clean', which failed")),
        ({"load": Fate.SKIPPED, "clean": Fate.SUCCEEDED}, Hold("skip", "depends on 'load', which was skipped")),
    ],
)
def test_a_dependent_starts_when_every_dependency_of_its_tick_has_succeeded(schedule, fates, expected):
    assert hold(schedule(job={"depends_on": ("load", "clean")}), fates) == expected
