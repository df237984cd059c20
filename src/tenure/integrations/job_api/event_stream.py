"""Server-sent events about one job: `state`, `progress`, and at its end `end` with the outcome.

A stream ends with the job, or after five minutes: the browser then connects again, and is authorised again. The id of
the last event is `end`, so that a browser that connects again after it can be told to stop.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from tenure.definition.job_info import JobInfo
from tenure.events import END_STATES
from tenure.integrations.job_api.answers import JobResult, outcome_of, status_of
from tenure.integrations.job_api.watcher import JobWatcher

CONTENT_TYPE = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}  # nginx would collect events before it sends them
LAST_ID = "end"
HEARTBEAT_SECONDS = 15.0  # proxies end connections that are silent for a minute
STREAM_SECONDS = 300.0
_BEGIN = b"retry: 2000\n\n"
_HEARTBEAT = b": still here\n\n"


class EventLog:
    """Makes events from what is known of a job; each call tells what has changed since the last one."""

    def __init__(self) -> None:
        self._state: tuple[str, bool] | None = None
        self._progress: Any = None

    def events(self, info: JobInfo) -> bytes:
        status = status_of(info)
        if info.state in END_STATES:
            outcome = outcome_of(info)
            told = {"outcome": outcome} if isinstance(outcome, JobResult) else {"problem": outcome}
            return _event("end", {"status": status, **told}, LAST_ID)
        if (info.state, info.cancel_asked) != self._state:
            self._state, self._progress = (info.state, info.cancel_asked), info.progress
            return _event("state", status)
        if info.progress != self._progress:
            self._progress = info.progress
            return _event("progress", status)
        return b""


def _event(name: str, data: Any, id: str | None = None) -> bytes:
    tail = f"id: {id}\n" if id else ""
    return f"event: {name}\n{tail}data: ".encode() + msgspec.json.encode(data) + b"\n\n"  # JSON has no line breaks


def first_events(info: JobInfo) -> bytes:
    """The beginning of a stream: what is known now."""
    return _BEGIN + EventLog().events(info)


async def async_events(watcher: JobWatcher, info: JobInfo) -> AsyncIterator[bytes]:
    """The events of a job, from what is known now; holds no thread."""
    loop, changed, log = asyncio.get_running_loop(), asyncio.Event(), EventLog()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(changed.set)

    yield _BEGIN + log.events(info)
    if info.state in END_STATES:
        return
    give_up, subscription = time.monotonic() + STREAM_SECONDS, watcher.subscribe(info.id, tell)
    try:
        while (left := give_up - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(min(left, HEARTBEAT_SECONDS)):  # wait_for of Python 3.11 may miss a cancel
                    await changed.wait()
            except TimeoutError:
                yield _HEARTBEAT
            changed.clear()
            latest, is_over = subscription.known
            if latest is not None and (events := log.events(latest)):
                yield events
            if is_over:
                return
    finally:
        watcher.unsubscribe(subscription)


def blocking_events(watcher: JobWatcher, info: JobInfo) -> Iterator[bytes]:
    """As `async_events`, for a server that gives a thread to each request."""
    changed, log = threading.Event(), EventLog()
    yield _BEGIN + log.events(info)
    if info.state in END_STATES:
        return
    give_up, subscription = time.monotonic() + STREAM_SECONDS, watcher.subscribe(info.id, changed.set)
    try:
        while (left := give_up - time.monotonic()) > 0:
            if not changed.wait(min(left, HEARTBEAT_SECONDS)):
                yield _HEARTBEAT
            changed.clear()
            latest, is_over = subscription.known
            if latest is not None and (events := log.events(latest)):
                yield events
            if is_over:
                return
    finally:
        watcher.unsubscribe(subscription)
