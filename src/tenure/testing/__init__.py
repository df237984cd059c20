"""For tests: an app in memory with a clock that the test moves, and the suites that a backend must pass.

`tenure.testing.conformance` needs pytest and `tenure.testing.model` needs hypothesis; the rest needs neither.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.testing.app_under_test import AppUnderTest
    from tenure.testing.clock import FakeClock
    from tenure.testing.job_runner import HandlerRun
    from tenure.testing.jobs import EnqueuedJob, assert_enqueued, enqueued, run_due
else:
    # Imported on first use: pytest imports this package in every project, for the plugin in it.
    _HOMES = {
        "AppUnderTest": "tenure.testing.app_under_test",
        "EnqueuedJob": "tenure.testing.jobs",
        "FakeClock": "tenure.testing.clock",
        "HandlerRun": "tenure.testing.job_runner",
        "assert_enqueued": "tenure.testing.jobs",
        "enqueued": "tenure.testing.jobs",
        "run_due": "tenure.testing.jobs",
    }

    def __getattr__(name):
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'tenure.testing' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


__all__ = ["AppUnderTest", "EnqueuedJob", "FakeClock", "HandlerRun", "assert_enqueued", "enqueued", "run_due"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
