"""The steps of a schema are numbered without gaps and duplicates: of two with one number, one would never run."""

import pytest

from tenure.backends.sql.migrations import DIALECTS, steps


@pytest.mark.parametrize("dialect", DIALECTS)
def test_steps_are_numbered_one_by_one(dialect):
    numbers = [version for version, _, _ in steps(dialect)]
    assert numbers == list(range(1, len(numbers) + 1))
