"""For tests: a clock that the test moves, functions that list and run jobs, and the suites that a backend must pass.

`tenure.testing.conformance` needs pytest and `tenure.testing.model` needs hypothesis; the rest needs neither.
"""

from tenure.testing.clock import FakeClock
from tenure.testing.jobs import EnqueuedJob, assert_enqueued, enqueued, run_due

__all__ = ["EnqueuedJob", "FakeClock", "assert_enqueued", "enqueued", "run_due"]
