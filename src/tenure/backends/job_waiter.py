"""JobWaiter: one thread that finds out when jobs end, for every caller of an app that waits for one.

The thread asks its backend about all jobs together, when the backend signals that jobs ended, and now and then without
a signal. It starts with the first wait and stops soon after the last one. While the backend cannot be reached, the
waits go on.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from tenure.backends.ends import EndWait, Wakeup
from tenure.backends.parts import JobEnds
from tenure.errors import BackendError, BackendUnavailable

logger = logging.getLogger(__name__)

OnEnd = Callable[[Exception | None], None]
POLL_SECONDS = 1.0  # behind every signal, which may be lost
_LINGER_SECONDS = 2.0  # the next wait often follows soon, and a new thread must register again
_RETRY_SECONDS = 0.5  # while the backend cannot be reached
_CHUNK = 500  # ids in one question: SQLite answers it in 2 ms, and lets no other thread in meanwhile
_REST = 4  # after a question about all jobs the thread rests so many times as long: it takes a fifth of a core at most


class Wait:
    """One caller's wait for one job; `on_end` is called once, with an error if the waiter was closed."""

    __slots__ = ("id", "on_end")

    def __init__(self, id: str, on_end: OnEnd) -> None:
        self.id = id
        self.on_end = on_end


class JobWaiter:
    """The waits of one process for the jobs of one backend."""

    def __init__(self, ends: JobEnds) -> None:
        self._ends = ends
        self._lock = threading.Lock()
        self._waits: dict[str, set[Wait]] = {}
        self._fresh: list[str] = []  # ids that the backend was not asked about yet
        self._thread: threading.Thread | None = None
        self._wakeup: Wakeup | None = None  # exists while the thread runs
        self._is_closed = False
        self._is_down = False
        self._last_news = 0.0

    def watch(self, id: str, on_end: OnEnd) -> Wait:
        """Call `on_end`, in the waiter's thread, once this job has ended or is not known; does not block."""
        wait = Wait(id, on_end)
        with self._lock:
            if self._is_closed:
                raise _closed(id)
            self._waits.setdefault(id, set()).add(wait)
            self._fresh.append(id)
            if self._wakeup is None:
                self._wakeup = Wakeup()
                self._thread = threading.Thread(
                    target=self._run, args=(self._wakeup,), name="tenure-waiter", daemon=True
                )
                self._thread.start()
            self._wakeup.set()
        return wait

    def forget(self, wait: Wait) -> None:
        """End a wait without a call."""
        with self._lock:
            waits = self._waits.get(wait.id, set())
            waits.discard(wait)
            if not waits:
                self._waits.pop(wait.id, None)

    def wait(self, ids: Iterable[str], timeout: float | None) -> bool:
        """Block until these jobs have ended or are not known; False if the time was over before."""
        give_up = None if timeout is None else time.monotonic() + timeout
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        waits = [self.watch(id, ended.put) for id in dict.fromkeys(ids)]
        try:
            for _ in waits:
                error = ended.get(timeout=None if give_up is None else max(0.0, give_up - time.monotonic()))
                if error is not None:
                    raise error
        except queue.Empty:
            return False
        finally:
            for wait in waits:
                self.forget(wait)
        return True

    def close(self) -> None:
        """End the thread; every caller that waits gets an error."""
        with self._lock:
            self._is_closed = True
            if self._wakeup is not None:
                self._wakeup.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            waits = self._take_all()
        for wait in waits:
            wait.on_end(_closed(wait.id))

    def _run(self, wakeup: Wakeup) -> None:
        try:
            while self._goes_on(wakeup):
                self._watch_backend(wakeup)
        except Exception as error:
            logger.exception("waiting for the ends of jobs failed")
            message = f"waiting for the ends of jobs failed: {error!r}"
            with self._lock:
                waits = self._take_all()
                self._stop(wakeup)
            for wait in waits:
                wait.on_end(BackendError(message))

    def _watch_backend(self, wakeup: Wakeup) -> None:
        try:
            with self._ends.watch(wakeup) as wait:
                with self._lock:
                    self._fresh = list(self._waits)  # jobs may have ended before the watch began
                while self._has_waits(wakeup):
                    self._turn(wakeup, wait)
        except BackendError as error:
            if not self._is_down:
                logger.warning("callers wait for jobs, and the backend cannot tell when they end: %s", error)
            self._is_down = True
            if not self._is_closed_after_clear(wakeup):
                wakeup.wait(_RETRY_SECONDS)

    def _turn(self, wakeup: Wakeup, wait: EndWait) -> None:
        is_closed = self._is_closed_after_clear(wakeup)
        if fresh := self._take_fresh():
            self._ask(fresh)
        elif not is_closed and wait(POLL_SECONDS, time.monotonic() - self._last_news):
            begun = time.monotonic()
            self._ask(list(self._waits))
            wakeup.wait((time.monotonic() - begun) * _REST)

    def _ask(self, ids: Sequence[str]) -> None:
        for first in range(0, len(ids), _CHUNK):
            if ended := self._ends.ended(ids[first : first + _CHUNK]):
                self._tell(ended)
        self._is_down = False

    def _tell(self, ended: set[str]) -> None:
        with self._lock:
            waits = [wait for id in ended for wait in self._waits.pop(id, ())]
        self._last_news = time.monotonic()
        for wait in waits:
            wait.on_end(None)

    def _take_fresh(self) -> list[str]:
        with self._lock:
            fresh, self._fresh = self._fresh, []
            found = [id for id in dict.fromkeys(fresh) if id in self._waits]
        if found:
            self._last_news = time.monotonic()
        return found

    def _has_waits(self, wakeup: Wakeup) -> bool:
        """Whether the thread has work, now or soon."""
        if not self._waits and not self._is_closed_after_clear(wakeup) and not self._waits:
            wakeup.wait(_LINGER_SECONDS)
        return bool(self._waits) and not self._is_closed

    def _is_closed_after_clear(self, wakeup: Wakeup) -> bool:
        """The wakeup is cleared first: what another thread changes later sets it again."""
        wakeup.clear()
        return self._is_closed

    def _goes_on(self, wakeup: Wakeup) -> bool:
        with self._lock:
            goes_on = bool(self._waits) and not self._is_closed
            if not goes_on:
                self._stop(wakeup)
        return goes_on

    def _stop(self, wakeup: Wakeup) -> None:
        """The thread ends; the next wait starts another one."""
        self._thread = self._wakeup = None
        wakeup.close()

    def _take_all(self) -> list[Wait]:
        waits = [wait for each in self._waits.values() for wait in each]
        self._waits.clear()
        return waits


def _closed(id: str) -> Exception:
    return BackendUnavailable(f"the app was closed while a caller waited for job {id!r}; ask again to open it again")
