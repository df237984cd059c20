"""Two workers at once on a large backlog run every job exactly once."""

from collections import Counter

import pytest

from tenure import Tenure
from tests.support.waiting import eventually

JOBS = 20_000

APP = f"""
import os
import time
from pathlib import Path

from tenure import Tenure

app = Tenure()
here = Path(__file__).parent
book = open(here / f"ran-{{os.getpid()}}", "a", buffering=1)


@app.job
def note(number: int) -> None:
    own = here / f"began-{{os.getpid()}}"
    if not own.exists():
        own.touch()
        while len([*here.glob("began-*")]) < 2:  # both have begun before one goes on
            time.sleep(0.005)
    book.write(f"{{number}}\\n")


if __name__ == "__main__":
    app.enqueue_many(note.build(number=number) for number in range({JOBS}))
"""


@pytest.mark.slow
def test_two_workers_run_every_one_of_20_000_jobs_once_and_share_them(tenure):
    (tenure.folder / "ledger.py").write_text(APP)
    workers = [tenure.start("--app", "ledger:app", "work", "--runner", "inline") for _ in range(2)]
    with Tenure(tenure.environment["TENURE_URL"]) as app:
        eventually(lambda: len(app.backend.workers.alive()) == 2)
        tenure.python("ledger.py")
        eventually(lambda: app.jobs.counts()["default"]["done"] == JOBS)
    for worker in workers:
        worker.terminate()
    said = [worker.communicate(timeout=100) for worker in workers]
    shares = [(tenure.folder / f"ran-{worker.pid}").read_text().split() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    assert Counter(shares[0] + shares[1]) == Counter(map(str, range(JOBS)))
    assert min(map(len, shares)) >= JOBS / 10
