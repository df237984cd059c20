"""For tests: a clock that stands still, jobs to look at and run, and the suites that decide what a backend is.

`tenure.testing.conformance` needs pytest and `tenure.testing.model` needs hypothesis; the rest needs neither.
"""

from tenure.testing.clock import FakeClock
from tenure.testing.jobs import EnqueuedJob, assert_enqueued, enqueued, run_due

__all__ = ["EnqueuedJob", "FakeClock", "assert_enqueued", "enqueued", "run_due"]
