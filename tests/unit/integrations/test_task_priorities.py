"""Django's priorities and the levels of Tenure."""

from itertools import groupby

import pytest

pytest.importorskip("django")

from tenure.integrations.django.tasks.priorities import level_of, lowest_of


def test_every_priority_of_django_has_a_level_and_a_higher_one_never_a_lower_level() -> None:
    levels = [level_of(priority) for priority in range(-100, 101)]

    assert levels == sorted(levels)
    assert set(levels) == set(range(10))


def test_only_the_default_priority_has_the_level_of_jobs_without_one() -> None:
    shared = {level: len(list(each)) for level, each in groupby(range(-100, 101), level_of)}

    assert shared == {**dict.fromkeys(range(5), 20), 5: 1, **dict.fromkeys(range(6, 10), 25)}
    assert level_of(0) == 5


def test_a_level_stands_for_its_priority_that_is_the_nearest_to_the_default() -> None:
    assert [lowest_of(level) for level in range(10)] == [-81, -61, -41, -21, -1, 0, 1, 26, 51, 76]
    assert [level_of(lowest_of(level)) for level in range(10)] == list(range(10))
