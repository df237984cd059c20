"""Time zones by name."""

import pytest

from tenure.definition.zones import find_zone
from tenure.errors import InvalidSchedule


def test_a_zone_is_found_by_its_name():
    assert find_zone("Europe/Madrid").key == "Europe/Madrid"


@pytest.mark.parametrize("name", ["Europe/Madird", "Europe", "", "../etc/passwd", "/etc/localtime", "Mars/Olympus", 5])
def test_what_is_no_zone_is_refused(name):
    with pytest.raises(InvalidSchedule, match="is not a time zone"):
        find_zone(name)


def test_a_slip_is_answered_with_the_names_like_it():
    with pytest.raises(InvalidSchedule, match="did you mean 'Europe/Madrid'"):
        find_zone("Europe/Madird")
