"""For async callers: a thin façade that enqueues without blocking the event loop.

Calls made while others are under way are sent together: a thousand concurrent enqueues need a few round trips.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from tenure.definition.job import Job

Loop = asyncio.AbstractEventLoop


class EnqueuingApp(Protocol):
    """The methods of a Tenure app that this module calls."""

    def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> Sequence[str]: ...

    def enqueue_each(self, jobs: Iterable[Job], backend: str | None = None) -> Sequence[str | Exception]: ...


class Async:
    """`jobs = Async(app)`, then `await jobs.enqueue(send_welcome.build(user_id=42))`. One object serves all loops."""

    def __init__(self, app: EnqueuingApp) -> None:
        self._app = app
        self._batchers: WeakKeyDictionary[Loop, _EnqueueBatcher] = WeakKeyDictionary()

    async def enqueue(self, job: Job, backend: str | None = None) -> str:
        """Put one job on its queue; returns its id once it is stored.

        If the call is cancelled before the job was sent, the job is not sent. If it is cancelled later, the job may
        have been stored.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._batchers:
            self._batchers[loop] = _EnqueueBatcher(self._app)
        return await self._batchers[loop].add(job, backend, loop)

    async def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> Sequence[str]:
        """Put many jobs, a thousand in each round trip; each thousand is stored completely or not at all."""
        return await asyncio.to_thread(self._app.enqueue_many, list(jobs), backend)


class _EnqueueCall(NamedTuple):
    job: Job
    backend: str | None
    answer: "asyncio.Future[str]"


class _EnqueueBatcher:
    """The calls of one loop. While one batch is under way, new calls collect for the next one."""

    def __init__(self, app: EnqueuingApp) -> None:
        self._app = app
        self._calls: list[_EnqueueCall] = []
        self._is_under_way = False

    def add(self, job: Job, backend: str | None, loop: Loop) -> "asyncio.Future[str]":
        call = _EnqueueCall(job, backend, loop.create_future())
        self._calls.append(call)
        if not self._is_under_way:
            self._is_under_way = True
            loop.call_soon(self._send, loop)  # after the calls that are made in this turn of the loop
        return call.answer

    def _send(self, loop: Loop) -> None:
        calls = [call for call in self._calls if not call.answer.done()]
        self._calls = []
        if not calls:
            self._is_under_way = False
            return
        sending = loop.run_in_executor(None, self._enqueue, calls)
        sending.add_done_callback(lambda done: self._answer(calls, done, loop))

    def _answer(self, calls: list[_EnqueueCall], done: "asyncio.Future[list[str | Exception]]", loop: Loop) -> None:
        error = done.exception()
        for call, answer in zip(calls, done.result() if error is None else [error] * len(calls), strict=True):
            if call.answer.done():
                continue  # its caller was cancelled
            if isinstance(answer, BaseException):
                call.answer.set_exception(answer)
            else:
                call.answer.set_result(answer)
        self._send(loop)

    def _enqueue(self, calls: list[_EnqueueCall]) -> list[str | Exception]:
        answers: dict[int, str | Exception] = {}
        for backend in dict.fromkeys(call.backend for call in calls):
            positions = [position for position, call in enumerate(calls) if call.backend == backend]
            found = self._app.enqueue_each([calls[position].job for position in positions], backend)
            answers |= zip(positions, found, strict=True)
        return [answers[position] for position in range(len(calls))]
