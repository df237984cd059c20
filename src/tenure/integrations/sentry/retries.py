"""EarlierFailures: the failed attempts of jobs that run again, which become breadcrumbs of their later attempts.

They are kept in the memory of the process: a later attempt in another process does not show them.
"""

import threading
from collections import OrderedDict
from datetime import UTC, datetime

from sentry_sdk.scope import Scope

from tenure.clock import MICROSECOND
from tenure.definition.failure import Failure

_MAX_JOBS = 1000
_MAX_FAILURES = 10  # of one job


class EarlierFailures:
    """The last failures of the last jobs that failed here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, list[Failure]] = OrderedDict()

    def add(self, id: str, failure: Failure) -> None:
        with self._lock:
            known = self._failures.setdefault(id, [])
            known[:] = [*known, failure][-_MAX_FAILURES:]
            self._failures.move_to_end(id)
            if len(self._failures) > _MAX_JOBS:
                self._failures.popitem(last=False)

    def forget(self, id: str) -> None:
        with self._lock:
            self._failures.pop(id, None)

    def show(self, id: str, scope: Scope) -> None:
        """Add a breadcrumb for each earlier failure of a job."""
        if id not in self._failures:
            return
        with self._lock:
            known = list(self._failures.get(id, ()))
        for failure in known:
            scope.add_breadcrumb(
                type="error",
                category="tenure.retry",
                level="warning",
                message=f"attempt {failure.attempt} failed: {failure.type}: {failure.message}",
                timestamp=datetime.fromtimestamp(failure.at / MICROSECOND, UTC),
            )
