"""Waiters: the threads of an app that wait for the ends of jobs, one for each backend that callers wait for."""

import os
from collections.abc import Callable

from tenure.backends.contract import Parts, required
from tenure.backends.job_waiter import JobWaiter


class Waiters:
    """A child process after a fork has waiters of its own: threads and locks of its parent do not work there."""

    def __init__(self, parts: Callable[[str | None], Parts], url: Callable[[str | None], str]) -> None:
        self._parts = parts
        self._url = url
        self._of_process: dict[int, dict[str, JobWaiter]] = {}

    def get(self, backend: str | None = None) -> JobWaiter:
        """The waiter for the jobs of this backend, which is opened if it is not open yet."""
        found = self.known(backend)
        if found is None:
            ends = required(self._parts(backend).ends, "results or records of jobs")
            found = self._own().setdefault(self._url(backend), JobWaiter(ends))
        return found

    def known(self, backend: str | None = None) -> JobWaiter | None:
        """The waiter, if it exists already; does not block."""
        return self._own().get(self._url(backend))

    def close(self) -> None:
        """Callers that wait get an error; the next wait makes a new waiter."""
        waiters = self._of_process.pop(os.getpid(), {})
        for waiter in waiters.values():
            waiter.close()

    def _own(self) -> dict[str, JobWaiter]:
        return self._of_process.setdefault(os.getpid(), {})
