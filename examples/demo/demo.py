"""The Python steps of the demo: enqueue jobs, wait until they have ended, and print what happened.

python demo.py enqueue | wait | table
"""

import sys
import time
from collections import Counter
from pathlib import Path

from app import app, count, fetch_rates, greet, print_invoice

from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND

BULK = 5000
PATIENCE = 30.0
NOTED = Path("jobs.txt")  # the ids of the jobs in the table


def enqueue() -> None:
    """Enqueue one job with a delay, two jobs that will fail, and thousands of jobs in one call."""
    ids = [
        greet.using(delay="2s").enqueue("Grace"),
        fetch_rates.enqueue("EUR"),
        print_invoice.enqueue(17),
    ]
    with NOTED.open("a") as noted:
        noted.writelines(f"{id}\n" for id in ids)
    begun = time.perf_counter()
    app.enqueue_many(count.build(number) for number in range(BULK))
    print(f"Stored {len(ids)} jobs one by one, then {BULK} in {time.perf_counter() - begun:.2f} s.")


def wait() -> None:
    """Wait until no job is ready, delayed or running."""
    give_up = time.monotonic() + PATIENCE
    while any(
        states[state] for states in app.backend.queues.counts().values() for state in ("ready", "delayed", "leased")
    ):
        if time.monotonic() > give_up:
            sys.exit(f"some jobs had not ended after {PATIENCE:g} s")
        time.sleep(0.1)


def table() -> None:
    rows = [("JOB", "STATE", "ATTEMPTS", "WHAT HAPPENED")]
    for id in NOTED.read_text().split():
        job = app.backend.jobs.find(id)
        attempts = len(job.failures) + (job.state == "done")
        rows.append((job.handler, job.state, str(attempts), _story(job)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _story(job: JobRecord) -> str:
    """List what happened to a job, in order."""
    steps = []
    if job.due_at > job.enqueued_at and not job.failures:
        steps.append(f"waited {(job.due_at - job.enqueued_at) / MICROSECOND:g} s")
    steps += [f"{times} × {kind}" for kind, times in Counter(failure.type for failure in job.failures).items()]
    if job.failures and not job.attempts:  # a replay resets the count
        steps.append("a replay")
    return ", ".join([*steps, f'"{job.output}"' if job.state == "done" else str(job.reason)])


if __name__ == "__main__":
    with app:
        {"enqueue": enqueue, "wait": wait, "table": table}[sys.argv[1]]()
