"""The end of the range of ids that start with a prefix, in the order of code points."""

import pytest

from tenure.backends.sql.job_lookup import end_of_prefix

LAST = chr(0x10FFFF)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("ab", "ac"),
        ("a", "b"),
        (f"a{LAST}", "b"),
        ("a\ud7ff", "a\ue000"),
        ("aé", "aê"),
        ("", LAST * 256),
        (LAST * 2, LAST * 256),
    ],
)
def test_the_end_of_a_prefix_is_the_next_text_that_does_not_start_with_it(prefix, end):
    assert end_of_prefix(prefix) == end
    assert all(prefix <= prefix + rest < end for rest in ("", "0", "z", "\ud7ff", LAST * 100))
