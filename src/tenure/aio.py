"""For async callers: a thin façade that enqueues without blocking the event loop.

Calls made while others are under way are gathered: a thousand concurrent enqueues are a few round trips.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tenure.app import Tenure
from tenure.definition.job import Job

Loop = asyncio.AbstractEventLoop


class Async:
    """`jobs = Async(app)`, then `await jobs.enqueue(send_welcome.build(user_id=42))`; one serves any loop."""

    def __init__(self, app: Tenure) -> None:
        self._app = app
        self._gatherings: WeakKeyDictionary[Loop, _Gathering] = WeakKeyDictionary()

    async def enqueue(self, job: Job, backend: str | None = None) -> str:
        """Put one job on its queue; returns its id once it is stored.

        Cancelled before it was sent it is not sent; cancelled later it may have been stored.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._gatherings:
            self._gatherings[loop] = _Gathering(self._app)
        return await self._gatherings[loop].add(job, backend, loop)

    async def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> list[str]:
        """Put many jobs, a thousand a round trip; each thousand is stored whole or not at all."""
        return await asyncio.to_thread(self._app.enqueue_many, list(jobs), backend)


class _Call(NamedTuple):
    job: Job
    backend: str | None
    answer: "asyncio.Future[str]"


class _Gathering:
    """The calls of one loop: one batch is under way, the next one grows."""

    def __init__(self, app: Tenure) -> None:
        self._app = app
        self._calls: list[_Call] = []
        self._is_under_way = False

    def add(self, job: Job, backend: str | None, loop: Loop) -> "asyncio.Future[str]":
        call = _Call(job, backend, loop.create_future())
        self._calls.append(call)
        if not self._is_under_way:
            self._is_under_way = True
            loop.call_soon(self._send, loop)  # behind the calls that are made in this turn of the loop
        return call.answer

    def _send(self, loop: Loop) -> None:
        calls = [call for call in self._calls if not call.answer.done()]
        self._calls = []
        if not calls:
            self._is_under_way = False
            return
        sending = loop.run_in_executor(None, self._enqueue, calls)
        sending.add_done_callback(lambda done: self._answer(calls, done, loop))

    def _answer(self, calls: list[_Call], done: "asyncio.Future[list[str | Exception]]", loop: Loop) -> None:
        error = done.exception()
        for call, answer in zip(calls, done.result() if error is None else [error] * len(calls), strict=True):
            if call.answer.done():
                continue  # given up by its caller
            if isinstance(answer, BaseException):
                call.answer.set_exception(answer)
            else:
                call.answer.set_result(answer)
        self._send(loop)

    def _enqueue(self, calls: list[_Call]) -> list[str | Exception]:
        answers: dict[int, str | Exception] = {}
        for backend in dict.fromkeys(call.backend for call in calls):
            positions = [position for position, call in enumerate(calls) if call.backend == backend]
            found = self._app.enqueue_each([calls[position].job for position in positions], backend)
            answers |= zip(positions, found, strict=True)
        return [answers[position] for position in range(len(calls))]
