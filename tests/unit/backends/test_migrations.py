"""The steps of a schema are numbered without a gap and without a twin: of two with one number one is never taken."""

import pytest

from tenure.backends.sql.migrations import DIALECTS, steps


@pytest.mark.parametrize("dialect", DIALECTS)
def test_steps_are_numbered_one_by_one(dialect):
    numbers = [version for version, _, _ in steps(dialect)]
    assert numbers == list(range(1, len(numbers) + 1))
