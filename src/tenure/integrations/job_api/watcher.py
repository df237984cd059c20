"""JobWatcher: one thread that reads the jobs which clients of event streams watch, each once for all its clients.

It starts with the first subscription and ends after the last one. The ends of jobs reach it at once, by the waiter of
the app; progress and other changes are read twice a second, or less often if many jobs are watched.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from tenure.app.tenure import Tenure
from tenure.backends.job_waiter import Wait
from tenure.definition.job_info import JobInfo
from tenure.errors import BackendError, JobNotFound
from tenure.events import END_STATES

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5  # workers save progress as often
READS_PER_SECOND = 200  # of all jobs together; unbounded, 1000 watched jobs were 1500 questions a second


class Known(NamedTuple):
    """The last that was read of a job; if it `is_over`, nothing more will come."""

    info: JobInfo | None
    is_over: bool


class JobSubscription:
    """What one client may know of a job; `changed` is called in another thread after each change.

    A client that is slow gets the last state only.
    """

    def __init__(self, id: str, changed: Callable[[], None]) -> None:
        self.id = id
        self.known = Known(None, is_over=False)
        self._changed = changed

    def deliver(self, info: JobInfo | None) -> None:
        """None: the job is not known any more, or the app was closed."""
        if info is not None and info == self.known.info:
            return
        is_over = info is None or info.state in END_STATES
        self.known = Known(info or self.known.info, is_over)
        self._changed()


class JobWatcher:
    """The event streams of one router."""

    def __init__(self, app: Tenure) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._watched: dict[str, _Watched] = {}
        self._thread: threading.Thread | None = None
        self._is_down = False

    def subscribe(self, id: str, changed: Callable[[], None]) -> JobSubscription:
        """Deliver what the job looks like soon, and each change; does not block."""
        subscription = JobSubscription(id, changed)
        with self._lock:
            is_new = id not in self._watched
            self._watched.setdefault(id, _Watched()).subscriptions.add(subscription)
            if self._thread is None or not self._thread.is_alive():  # a fork takes no thread along
                self._thread = threading.Thread(target=self._run, name="tenure-job-watcher", daemon=True)
                self._thread.start()
        if is_new:
            self._news.set()
        return subscription

    def unsubscribe(self, subscription: JobSubscription) -> None:
        with self._lock:
            watched = self._watched.get(subscription.id)
            if watched is None:
                return
            watched.subscriptions.discard(subscription)
            if watched.subscriptions:
                return
            del self._watched[subscription.id]
        self._stop_waiting(watched)
        self._news.set()

    def _run(self) -> None:
        next_round = 0.0
        while True:
            self._news.clear()
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                watched = list(self._watched.items())
            begun = time.monotonic()
            is_round = begun >= next_round
            for id, each in watched:
                if is_round or each.is_due:
                    self._refresh(id, each)
            if is_round:
                next_round = time.monotonic() + max(POLL_SECONDS, len(watched) / READS_PER_SECOND)
            self._news.wait(max(0.0, next_round - time.monotonic()))

    def _refresh(self, id: str, watched: "_Watched") -> None:
        watched.is_due = False
        if watched.is_closed:
            self._finish(id, watched, None)
            return
        try:
            if watched.wait is None:
                watched.wait = self._app.waiters.get().watch(id, lambda error: self._ended(watched, error))
            info: JobInfo | None = self._app.jobs.get(id)
        except JobNotFound:
            info = None
        except BackendError as error:
            if not self._is_down:
                logger.warning("clients watch jobs, and the backend cannot tell how they are: %s", error)
            self._is_down = True
            return
        self._is_down = False
        if info is None or info.state in END_STATES:
            self._finish(id, watched, info)
        else:
            watched.deliver(info)
            if not watched.subscriptions:  # the last client went away meanwhile
                self._stop_waiting(watched)

    def _ended(self, watched: "_Watched", error: Exception | None) -> None:
        """Called by the waiter of the app; with an error, the app was closed."""
        watched.is_closed, watched.wait, watched.is_due = error is not None, None, True
        self._news.set()

    def _finish(self, id: str, watched: "_Watched", info: JobInfo | None) -> None:
        with self._lock:
            if self._watched.get(id) is watched:
                del self._watched[id]
        self._stop_waiting(watched)
        watched.deliver(info)

    def _stop_waiting(self, watched: "_Watched") -> None:
        wait, watched.wait = watched.wait, None
        waiter = self._app.waiters.known()
        if wait is not None and waiter is not None:
            waiter.forget(wait)


class _Watched:
    """One job and its clients."""

    def __init__(self) -> None:
        self.subscriptions: set[JobSubscription] = set()
        self.wait: Wait | None = None
        self.is_due = True
        self.is_closed = False

    def deliver(self, info: JobInfo | None) -> None:
        for subscription in list(self.subscriptions):
            subscription.deliver(info)
