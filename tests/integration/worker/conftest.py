"""Workers in this process, on a machine that may be busy."""

import pytest

from tests.support.waiting import WAIT_SECONDS


@pytest.fixture(autouse=True)
def unstarted_jobs_wait(monkeypatch):
    """Workers keep the jobs that they have leased, however long these wait for their start.

    On a busy machine that may take more than the 250 ms after which a worker hands them back: a test that counts
    would find a job that was postponed, and a higher fence.
    """
    monkeypatch.setattr("tenure.worker.keeper._UNSTARTED_SECONDS", WAIT_SECONDS)
