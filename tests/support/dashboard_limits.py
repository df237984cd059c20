"""The times after which a dashboard answers with less: long ones for tests whose subject they are not."""

import pytest

from tenure.app.dashboard import core, job_rows, job_search, job_selection, jobs, overview, series
from tests.support.waiting import WAIT_SECONDS

_LIMITS = (
    (core, "SAVE_INTERVAL_SECONDS"),  # a longer action is answered with a page of its progress
    (job_search, "MAX_SECONDS"),
    (job_selection, "_COUNT_SECONDS"),
    (job_rows, "_READ_SECONDS"),
    (jobs, "_HINT_SECONDS"),
    (overview, "FIRST_WAIT_SECONDS"),
    (series, "FIRST_WAIT_SECONDS"),
)


def raise_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a dashboard take as long as a busy machine needs."""
    for module, name in _LIMITS:
        monkeypatch.setattr(module, name, WAIT_SECONDS)
