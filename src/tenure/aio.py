"""`app.aio`: what async callers need; no call blocks the event loop.

Calls run in a few threads of their own, so other users of the loop's default executor do not hold them up. A wait for
the end of a job takes no thread: one thread of the app waits for all of them. Enqueues made while others are under way
are sent together: a thousand concurrent ones need a few round trips.
"""

import asyncio
import contextvars
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, Unpack
from weakref import WeakKeyDictionary

from tenure.backends.job_waiter import JobWaiter
from tenure.definition.duration import Duration, to_seconds
from tenure.definition.given_job import check_job
from tenure.definition.job import Job
from tenure.definition.job_handle import JobClient, JobHandle
from tenure.definition.job_info import JobInfo
from tenure.definition.job_search import JobSearch
from tenure.definition.moment import When
from tenure.errors import ResultTimeout
from tenure.events import CancelResult, RescheduleResult

T = TypeVar("T")
R = TypeVar("R")
Loop = asyncio.AbstractEventLoop
JobOf = tuple[Job, str | None, Any]  # with its backend, and how it is traced
IdOf = tuple[str, str | None]
_THREADS = 4  # two serve batches of enqueues and of results; the others keep single calls from waiting for these
_PAGE = 100  # jobs that a search reads in one call


class WaitersOfApp(Protocol):
    """The waiters of an app, one for each backend."""

    def get(self, backend: str | None) -> JobWaiter: ...

    def known(self, backend: str | None) -> JobWaiter | None: ...


class AsyncJobs(Protocol):
    """The members of `app.jobs` that this module uses."""

    def on(self, backend: str) -> "AsyncJobs": ...

    def get(self, id: str) -> JobInfo: ...

    def find(self, *, after: str | None = None, **search: Unpack[JobSearch]) -> Iterable[JobInfo]: ...

    def wait(self, ids: Iterable[str], timeout: Duration | None = None) -> dict[str, JobInfo]: ...


class AsyncProducer(Protocol):
    """The methods of the app's producer that this module uses."""

    def enqueue_in_async_transaction(
        self, job: Job, backend: str | None, connection: Any, *, wake: bool = False
    ) -> Awaitable[str]: ...

    async def in_open_transaction(self, backend: str | None, enqueue: Callable[[], T]) -> tuple[T] | None: ...

    def trace_one(self, job: Job, backend: str | None = None) -> AbstractContextManager[Any] | None: ...

    def enqueue_traced(self, calls: Sequence[tuple[Job, Any]], backend: str | None = None) -> list[str | Exception]: ...


class AsyncApp(Protocol):
    """The members of a Tenure app that this module uses."""

    @property
    def waiters(self) -> WaitersOfApp: ...

    @property
    def jobs(self) -> AsyncJobs: ...

    def open_backend(self, backend: str | None = None) -> Any: ...

    def enqueue(self, job: Job, /, backend: str | None = None) -> JobHandle[Any]: ...

    def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> list[JobHandle[Any]]: ...

    def enqueue_each(self, jobs: Iterable[Job], backend: str | None = None) -> list[JobHandle[Any] | Exception]: ...

    def cancel(self, id: str, backend: str | None = None) -> CancelResult: ...

    def reschedule(
        self, id: str, *, delay: Duration = 0, at: When | None = None, backend: str | None = None
    ) -> RescheduleResult: ...


class Async:
    """`await app.aio.enqueue(job)`, `await app.aio.result(id)` and more; one object serves all loops and processes."""

    def __init__(self, app: AsyncApp, client_of: Callable[[str | None], JobClient], producer: AsyncProducer) -> None:
        """`client_of` gives the client of a backend."""
        self._app = app
        self._client_of = client_of
        self._producer = producer
        self._threads = Threads()
        self._enqueues: Batchers[JobOf, JobHandle[Any]] = Batchers(self._threads, self._enqueue_each)
        self._ends: Batchers[IdOf, JobInfo] = Batchers(self._threads, self._ended_each)

    async def enqueue(
        self, job: Job, backend: str | None = None, *, connection: Any = None, wake: bool = False
    ) -> JobHandle[Any]:
        """Put one job on its queue; returns its handle once it is stored.

        With an async `connection` to the backend's database the job joins its transaction: committed together, or
        never.

        If the call is cancelled before the job was sent, the job is not sent. If it is cancelled later, the job may
        have been stored.
        """
        check_job(job, "app.aio.enqueue")
        if connection is None:
            joined = await self._producer.in_open_transaction(backend, lambda: self._app.enqueue(job, backend))
            if joined is not None:
                return joined[0]
            tracing = self._producer.trace_one(job, backend)
            if tracing is None:
                return await self._enqueues.add((job, backend, None))
            with tracing as traced:
                return await self._enqueues.add((job, backend, traced))
        await self._threads.run(self._app.open_backend, backend)  # at its first use it takes long
        id = await self._producer.enqueue_in_async_transaction(job, backend, connection, wake=wake)
        return JobHandle(id, self._client_of(backend))

    async def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> list[JobHandle[Any]]:
        """Put many jobs, a thousand in each round trip; each thousand is stored completely or not at all."""
        enqueue = partial(self._app.enqueue_many, list(jobs), backend)
        joined = await self._producer.in_open_transaction(backend, enqueue)
        return await self._threads.run(enqueue) if joined is None else joined[0]

    async def enqueue_each(self, jobs: Iterable[Job], backend: str | None = None) -> list[JobHandle[Any] | Exception]:
        """Put independent jobs; returns the handle of each, or the error that refused it."""
        enqueue = partial(self._app.enqueue_each, list(jobs), backend)
        joined = await self._producer.in_open_transaction(backend, enqueue)
        return await self._threads.run(enqueue) if joined is None else joined[0]

    async def result(self, id: str, timeout: Duration | None = None, backend: str | None = None) -> Any:  # noqa: ASYNC109 - as `result` of a handle
        """The return value of a job, once it has ended; raises if the job did not succeed.

        A timeout of None waits without limit, and 0 asks once.
        """
        return await JobHandle(id, self._client_of(backend)).aresult(timeout)

    async def wait_for_end(self, id: str, seconds: float | None, backend: str | None = None) -> JobInfo:
        """Wait until a job has ended, without limit if `seconds` is None; 0 asks once."""
        give_up = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if give_up is None else max(0.0, give_up - time.monotonic())
            if left != 0 and not await self._ends_within([id], left, backend):
                raise ResultTimeout(f"job {str(id)!r} has not ended within {seconds:g} s")
            try:
                return await self._ends.add((str(id), backend))
            except ResultTimeout:
                if left == 0:
                    raise
                # a dead letter was replayed between its end and the call: it has not ended any more

    async def wait(
        self,
        ids: Iterable[str],
        timeout: Duration | None = None,  # noqa: ASYNC109 - as `app.jobs.wait`
        backend: str | None = None,
    ) -> dict[str, JobInfo]:
        """Wait until all these jobs have ended; returns what `app.jobs.wait` returns."""
        wanted = list(ids)
        await self._ends_within(wanted, None if timeout is None else to_seconds(timeout, "timeout"), backend)
        return await self._threads.run(self._jobs(backend).wait, wanted, 0)

    async def get(self, id: str, backend: str | None = None) -> JobInfo:
        """All that is known about a job."""
        return await self._threads.run(lambda: self._jobs(backend).get(id))

    async def find(
        self, *, backend: str | None = None, after: str | None = None, **search: Unpack[JobSearch]
    ) -> AsyncIterator[JobInfo]:
        """The jobs that `app.jobs.find` finds with these arguments, read page by page while you iterate."""
        found = await self._threads.run(lambda: iter(self._jobs(backend).find(after=after, **search)))
        while page := await self._threads.run(lambda: list(islice(found, _PAGE))):
            for job in page:
                yield job

    async def cancel(self, id: str, backend: str | None = None) -> CancelResult:
        """As `app.cancel`."""
        return await self._threads.run(self._app.cancel, id, backend)

    async def reschedule(
        self, id: str, *, delay: Duration = 0, at: When | None = None, backend: str | None = None
    ) -> RescheduleResult:
        """As `app.reschedule`."""
        return await self._threads.run(partial(self._app.reschedule, id, delay=delay, at=at, backend=backend))

    def close(self) -> None:
        """Finish the calls that are under way, and end the threads; the next call starts new ones."""
        self._threads.close()

    async def _ends_within(self, ids: list[str], seconds: float | None, backend: str | None) -> bool:
        """Wait until these jobs have ended; False if the time was over before."""
        waiter = self._app.waiters.known(backend)
        if waiter is None:
            waiter = await self._threads.run(self._app.waiters.get, backend)
        loop = asyncio.get_running_loop()
        ended: list[asyncio.Future[Exception | None]] = [loop.create_future() for _ in ids]
        waits = [waiter.watch(str(id), partial(_tell, loop, each)) for id, each in zip(ids, ended, strict=True)]
        try:
            done, left = await asyncio.wait(ended, timeout=seconds) if ended else (set(), set())
        finally:
            for wait, each in zip(waits, ended, strict=True):
                waiter.forget(wait)
                each.cancel()
        for each in done:
            if error := each.result():
                raise error
        return not left

    def _jobs(self, backend: str | None) -> AsyncJobs:
        return self._app.jobs if backend is None else self._app.jobs.on(backend)

    def _enqueue_each(self, calls: list[JobOf]) -> list[JobHandle[Any] | Exception]:
        answers: dict[int, JobHandle[Any] | Exception] = {}
        for backend, is_traced in dict.fromkeys((backend, traced is not None) for _, backend, traced in calls):
            positions = [
                position
                for position, call in enumerate(calls)
                if (call[1], call[2] is not None) == (backend, is_traced)
            ]
            if is_traced:
                found = self._enqueue_traced([(calls[each][0], calls[each][2]) for each in positions], backend)
            else:
                found = self._app.enqueue_each([calls[position][0] for position in positions], backend)
            answers |= zip(positions, found, strict=True)
        return [answers[position] for position in range(len(calls))]

    def _enqueue_traced(self, calls: list[tuple[Job, Any]], backend: str | None) -> list[JobHandle[Any] | Exception]:
        client = self._client_of(backend)
        found = self._producer.enqueue_traced(calls, backend)
        return [JobHandle(each, client) if isinstance(each, str) else each for each in found]

    def _ended_each(self, calls: list[IdOf]) -> list[JobInfo | Exception]:
        return [_answer(partial(self._client_of(backend).wait, id, 0)) for id, backend in calls]


class Threads:
    """A few threads, made at the first call; a child process after a fork makes its own."""

    def __init__(self) -> None:
        self._of_process: dict[int, ThreadPoolExecutor] = {}

    async def run(self, call: Callable[..., T], *given: Any) -> T:
        """Call a function in a thread, with the context variables of the caller."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self.send(loop, partial(contextvars.copy_context().run, call, *given), partial(_settle, answer))
        return await answer

    def send(self, loop: Loop, call: Callable[[], T], deliver: Callable[["Future[T]"], None]) -> None:
        """Call a function in a thread, and then `deliver` in the loop; a loop that was closed gets nothing."""

        def deliver_soon(done: "Future[T]") -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(deliver, done)

        try:
            sent = self._executor().submit(call)
        except RuntimeError:  # another thread has closed the app meanwhile
            sent = self._executor().submit(call)
        sent.add_done_callback(deliver_soon)

    def close(self) -> None:
        executor = self._of_process.pop(os.getpid(), None)
        if executor is not None:
            executor.shutdown()

    def _executor(self) -> ThreadPoolExecutor:
        executor = self._of_process.get(os.getpid())
        if executor is None:  # of two that two loops make at once, the first is kept
            new = ThreadPoolExecutor(_THREADS, thread_name_prefix="tenure-aio")
            executor = self._of_process.setdefault(os.getpid(), new)
        return executor


class Batchers(Generic[T, R]):
    """A batcher for each loop."""

    def __init__(self, threads: Threads, send: Callable[[list[T]], list[R | Exception]]) -> None:
        self._threads = threads
        self._send = send
        self._of_loop: WeakKeyDictionary[Loop, Batcher[T, R]] = WeakKeyDictionary()

    def add(self, item: T) -> Awaitable[R]:
        """The answer for this item, which is sent with others."""
        loop = asyncio.get_running_loop()
        if loop not in self._of_loop:
            self._of_loop[loop] = Batcher(self._threads, self._send)
        return self._of_loop[loop].add(item, loop)


class Batcher(Generic[T, R]):
    """The calls of one loop. While one batch is under way, new calls collect for the next one."""

    def __init__(self, threads: Threads, send: Callable[[list[T]], list[R | Exception]]) -> None:
        self._threads = threads
        self._send_batch = send
        self._calls: list[tuple[T, asyncio.Future[R]]] = []
        self._is_under_way = False

    def add(self, item: T, loop: Loop) -> "asyncio.Future[R]":
        answer: asyncio.Future[R] = loop.create_future()
        self._calls.append((item, answer))
        if not self._is_under_way:
            self._is_under_way = True
            loop.call_soon(self._send, loop)  # after the calls that are made in this turn of the loop
        return answer

    def _send(self, loop: Loop) -> None:
        calls = [(item, answer) for item, answer in self._calls if not answer.done()]
        self._calls = []
        if not calls:
            self._is_under_way = False
            return
        items, answers = [item for item, _ in calls], [answer for _, answer in calls]
        self._threads.send(loop, partial(self._send_batch, items), partial(self._answer, answers, loop))

    def _answer(self, answers: list["asyncio.Future[R]"], loop: Loop, done: "Future[list[R | Exception]]") -> None:
        error = done.exception()
        for answer, found in zip(answers, done.result() if error is None else [error] * len(answers), strict=True):
            if not answer.done():  # else its caller was cancelled
                answer.set_exception(found) if isinstance(found, BaseException) else answer.set_result(found)
        self._send(loop)


def _answer(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:  # any error belongs to this caller alone
        return error


def _settle(answer: "asyncio.Future[T]", done: "Future[T]") -> None:
    if answer.done():
        return  # its caller was cancelled
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)


def _tell(loop: Loop, ended: "asyncio.Future[Exception | None]", error: Exception | None) -> None:
    """Tell a coroutine, from the waiter's thread, that its job has ended."""

    def settle() -> None:
        if not ended.done():  # else its caller was cancelled, or has given up
            ended.set_result(error)

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(settle)
