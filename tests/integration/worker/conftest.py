"""Workers in this process, on a machine that may be busy."""

import pytest

UNSTARTED_SECONDS = 5.0  # where two workers share jobs, one waits so long for what the other has leased


@pytest.fixture(autouse=True)
def unstarted_jobs_wait(monkeypatch):
    """Workers keep the jobs that they have leased, also if these wait for their start for seconds.

    On a busy machine that may take more than the 250 ms after which a worker hands them back: a test that counts
    would find a job that was postponed, and a higher fence.
    """
    monkeypatch.setattr("tenure.worker.keeper._UNSTARTED_SECONDS", UNSTARTED_SECONDS)
