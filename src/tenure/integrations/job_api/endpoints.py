"""JobEndpoints: finds a job for a client, asks the hook of the user whether the client may see it, and answers.

A job that does not exist and a job that the client may not see get the same answer.
"""

import asyncio
import inspect
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Literal

from tenure.app.tenure import Tenure
from tenure.definition.job_info import JobInfo
from tenure.errors import BackendUnavailable, JobNotFound, ResultTimeout, SettingsError
from tenure.integrations.job_api import answers
from tenure.integrations.job_api.answers import JobAnswer
from tenure.integrations.job_api.event_stream import async_events, blocking_events, first_events
from tenure.integrations.job_api.watcher import JobWatcher

Authorize = Callable[[Any, JobInfo], bool | Awaitable[bool]]
"""Says whether the client of a request may see a job, and with the method DELETE, cancel it."""
Action = Literal["status", "result", "cancel"]
MAX_WAIT = 30.0  # seconds; proxies give up after a minute
_ASYNC_HOOK = "authorize must be a plain function here; an async one is for ASGI frameworks"
_UNREACHABLE = "the backend of the jobs cannot be reached"


def check_hook(authorize: Any) -> None:
    """Refuse a router that would show every job to everyone who knows its id, unless the user says so."""
    if not callable(authorize):
        raise SettingsError(
            f"authorize must be a function of the request and the job that returns whether the client may see the job, "
            f"got {authorize!r:.80}; lambda request, job: True lets everyone who knows an id see the job and cancel it"
        )


def wait_of(text: str | None) -> float | None:
    """The seconds of the query parameter `wait`, 0 without it, None if it is no number from 0 to MAX_WAIT."""
    try:
        seconds = float(text or 0)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= MAX_WAIT else None


class JobEndpoints:
    """For frameworks with an event loop."""

    def __init__(self, app: Tenure, authorize: Authorize) -> None:
        check_hook(authorize)
        self._app = app
        self._authorize = authorize
        self._watcher = JobWatcher(app)

    async def answer(self, action: Action, request: Any, id: str, wait: float | None = 0.0) -> JobAnswer:
        if wait is None:
            return answers.bad_wait(MAX_WAIT)
        found = await self._find(request, id)
        if isinstance(found, JobAnswer):
            return found
        try:
            if action == "cancel":
                return answers.cancel_answer(id, await self._app.aio.cancel(id))
            return await self._end(found, wait) if action == "result" else answers.status_answer(found)
        except BackendUnavailable:
            return answers.unavailable(_UNREACHABLE)

    async def events(self, request: Any, id: str) -> AsyncIterator[bytes] | JobAnswer:
        """The event stream of a job, or why there is none."""
        found = await self._find(request, id)
        return found if isinstance(found, JobAnswer) else async_events(self._watcher, found)

    async def _end(self, info: JobInfo, wait: float) -> JobAnswer:
        if wait:
            try:
                info = await self._app.aio.wait_for_end(info.id, wait)
            except ResultTimeout:
                info = await self._app.aio.get(info.id)
            except JobNotFound:
                return answers.not_found()
        return answers.result_answer(info)

    async def _find(self, request: Any, id: str) -> JobInfo | JobAnswer:
        if not answers.is_job_id(id):
            return answers.not_found()
        try:
            info = await self._app.aio.get(id)
        except JobNotFound:
            return answers.not_found()
        except BackendUnavailable:
            return answers.unavailable(_UNREACHABLE)
        return info if await self._is_allowed(request, info) else answers.not_found()

    async def _is_allowed(self, request: Any, info: JobInfo) -> bool:
        if inspect.iscoroutinefunction(self._authorize):
            return bool(await self._authorize(request, info))
        allowed = await asyncio.to_thread(self._authorize, request, info)  # it may ask a database
        return bool(await allowed if inspect.isawaitable(allowed) else allowed)


class BlockingJobEndpoints:
    """For frameworks that give a thread to each request; at most `max_streams` of them may hold one for events.

    Further clients get a stream that ends after the first event. A browser connects again after two seconds, while it
    would give up for ever after an answer such as 503.
    """

    def __init__(self, app: Tenure, authorize: Callable[[Any, JobInfo], bool], max_streams: int) -> None:
        check_hook(authorize)
        if inspect.iscoroutinefunction(authorize):
            raise SettingsError(_ASYNC_HOOK)
        self._app = app
        self._authorize = authorize
        self._watcher = JobWatcher(app)
        self._free_streams = threading.Semaphore(max_streams)

    def answer(self, action: Action, request: Any, id: str, wait: float | None = 0.0) -> JobAnswer:
        if wait is None:
            return answers.bad_wait(MAX_WAIT)
        found = self._find(request, id)
        if isinstance(found, JobAnswer):
            return found
        try:
            if action == "cancel":
                return answers.cancel_answer(id, self._app.cancel(id))
            return self._end(found, wait) if action == "result" else answers.status_answer(found)
        except BackendUnavailable:
            return answers.unavailable(_UNREACHABLE)

    def events(self, request: Any, id: str) -> "BoundedStream | JobAnswer":
        """The event stream of a job, or why there is none."""
        found = self._find(request, id)
        if isinstance(found, JobAnswer):
            return found
        if not self._free_streams.acquire(blocking=False):
            return BoundedStream(iter([first_events(found)]), _nothing)
        return BoundedStream(blocking_events(self._watcher, found), self._free_streams.release)

    def _end(self, info: JobInfo, wait: float) -> JobAnswer:
        if wait:
            try:
                info = self._app.jobs.wait([info.id], wait)[info.id]
            except ResultTimeout:
                info = self._app.jobs.get(info.id)
            except JobNotFound:
                return answers.not_found()
        return answers.result_answer(info)

    def _find(self, request: Any, id: str) -> JobInfo | JobAnswer:
        if not answers.is_job_id(id):
            return answers.not_found()
        try:
            info = self._app.jobs.get(id)
        except JobNotFound:
            return answers.not_found()
        except BackendUnavailable:
            return answers.unavailable(_UNREACHABLE)
        allowed: object = self._authorize(request, info)
        if inspect.isawaitable(allowed):  # it is true in a condition, whatever it would return
            raise SettingsError(_ASYNC_HOOK)
        return info if allowed else answers.not_found()


class BoundedStream:
    """An event stream that gives its place back when the server closes it, or drops it unread, as for HEAD."""

    def __init__(self, events: Iterator[bytes], close: Callable[[], None]) -> None:
        self._events = events
        self._close = close

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        close, self._close = self._close, _nothing
        close()
        if inspect.isgenerator(self._events):
            self._events.close()

    def __del__(self) -> None:
        self.close()


def _nothing() -> None:
    """What the second call of `close` does."""
