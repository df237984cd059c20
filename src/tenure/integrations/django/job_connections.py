"""Django's database connections around each job: as Django itself does around each request.

Before a job, connections that are broken or too old are closed, and the list of queries is emptied; after it again. A
connection inside `atomic()` stays open, so a job that a test runs does not end the transaction of the test.

An async job gets a thread of its own for `sync_to_async`, as a request has, and its connections are closed with it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import Error, connections

from tenure.definition.context import Context

logger = logging.getLogger(__name__)

T = TypeVar("T")


def around(context: Context, proceed: Callable[[], Any]) -> Any:  # noqa: ARG001 - a middleware
    """Run a job with usable connections; a middleware."""
    refresh_connections()
    outer = set(open_transactions())
    try:
        return proceed()
    finally:
        drop_connections([each for each in open_transactions() if each not in outer])
        refresh_connections()


async def around_async(context: Context, proceed: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ARG001 - a middleware
    """Run an async job with usable connections in a thread of its own; a middleware."""
    async with _own_thread() as place:
        if outside_of_loop(in_transaction):  # of a test, in this thread: the job must see what the test has written
            SyncToAsync.context_to_thread_executor[place] = InlineExecutor()
            return await proceed()
        try:
            return await proceed()
        finally:
            if place in SyncToAsync.context_to_thread_executor:  # it has used sync_to_async
                await sync_to_async(close_connections)()


@asynccontextmanager
async def _own_thread() -> AsyncIterator[ThreadSensitiveContext]:
    """A thread for `sync_to_async`, also if this loop runs inside `async_to_sync`, whose thread waits for the loop."""
    outer = getattr(AsyncToSync.executors, "current", None)
    AsyncToSync.executors.current = None
    try:
        async with ThreadSensitiveContext() as place:
            yield place
    finally:
        AsyncToSync.executors.current = outer


def in_transaction() -> bool:
    """Whether this thread has a transaction open on any database."""
    return bool(open_transactions())


def open_transactions() -> list[str]:
    """The aliases on which this thread is inside `atomic()`."""
    return [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]


def drop_connections(aliases: list[str]) -> None:
    """Roll back what a job has left open, as a timeout inside `atomic()` may; later jobs would never be committed."""
    for alias in aliases:
        logger.warning("a job ended inside atomic() on the database %r; its transaction is rolled back", alias)
        _close(connections[alias], connections[alias].close)
        del connections[alias]


def refresh_connections() -> None:
    """Close the connections of this thread that are broken or too old, and empty their lists of queries.

    A connection inside `atomic()` belongs to a test; Django's own `close_old_connections` would close it.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.queries_log.clear()
            _close(connection, connection.close_if_unusable_or_obsolete)


def close_connections() -> None:
    """Close all connections of this thread, which ends."""
    for connection in connections.all(initialized_only=True):
        _close(connection, connection.close)


def _close(connection: Any, close: Callable[[], None]) -> None:
    try:
        close()
    except Error as error:  # Django has dropped it nevertheless; the job before it has not failed
        logger.warning("a connection to the database %r could not be closed: %s", connection.alias, error)


class InlineExecutor(Executor):
    """Runs what `sync_to_async` is given in the thread of the event loop, which waits meanwhile: for tests only."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(outside_of_loop(lambda: function(*args, **kwargs)))
        except BaseException as error:
            future.set_exception(error)
        return future


def outside_of_loop(function: Callable[[], T]) -> T:
    """Call a function in the thread of the event loop as if none ran: Django refuses its database where one does."""
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return function()
    finally:
        asyncio._set_running_loop(loop)
