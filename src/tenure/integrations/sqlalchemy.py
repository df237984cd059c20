"""SQLAlchemy: a session for each job, and engines that do not cross a fork; needs `tenure[sqlalchemy]`.

Enqueueing in a transaction of SQLAlchemy needs nothing from here: `using(connection=session)` does it.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from tenure.app import Tenure
from tenure.errors import InvalidHandler, SettingsError

E = TypeVar("E", Engine, AsyncEngine)


def provide_session(
    app: Tenure,
    sessions: sessionmaker[Any] | async_sessionmaker[Any],
    *,
    type: type[Any] | None = None,
    commit: bool = False,
) -> None:
    """Give every attempt a session of its own: `def handle(order_id: int, session: Session = PROVIDED)`.

    The session is closed after the attempt, which rolls back what was not committed. The handler commits by itself;
    with `commit`, Tenure commits when the handler has returned, before the job counts as done. Handlers ask for
    `Session` or `AsyncSession`, or for the class that `class_` of the sessionmaker names; `type` is another name.
    """
    if isinstance(sessions, async_sessionmaker):
        app.provide(type or _class_of(sessions), _async_factory(sessions, commit))
    elif isinstance(sessions, sessionmaker):
        app.provide(type or _class_of(sessions), _factory(sessions, commit))
    else:
        raise InvalidHandler(
            f"provide_session takes a sessionmaker or an async_sessionmaker, got {sessions!r:.80}; write "
            "provide_session(app, sessionmaker(engine))"
        )


def dispose_after_fork(engine: E) -> E:
    """Let a forked child process open connections of its own instead of sharing its parent's; returns the engine.

    For servers and pools that fork after the import, such as gunicorn with --preload and multiprocessing. The child
    forgets the connections of the pool without closing them, because the parent uses them. A session that is open
    during the fork still has the connection of the parent.
    """
    pooled = weakref.ref(engine.sync_engine if isinstance(engine, AsyncEngine) else engine)

    def dispose() -> None:
        found = pooled()
        if found is not None:
            found.dispose(close=False)

    os.register_at_fork(after_in_child=dispose)
    return engine


def _class_of(sessions: sessionmaker[Any] | async_sessionmaker[Any]) -> Any:
    """The class that the sessionmaker was made with; most make a subclass of it, with the same name."""
    made, above = sessions.class_.__mro__[:2]
    return above if above.__name__ == made.__name__ else made


def _factory(sessions: sessionmaker[Any], commit: bool) -> Callable[[], Iterator[Session]]:
    def open_session() -> Iterator[Session]:
        with sessions() as session:
            yield session
            if commit:
                session.commit()

    return open_session


def _async_factory(sessions: async_sessionmaker[Any], commit: bool) -> Callable[[], AsyncIterator[AsyncSession]]:
    engine = sessions.kw.get("bind")
    loops = _PoolLoop(engine) if isinstance(engine, AsyncEngine) else None

    async def open_session() -> AsyncIterator[AsyncSession]:
        if loops is not None:
            loops.check()
        async with sessions() as session:
            yield session
            if commit:
                await session.commit()

    return open_session


class _PoolLoop:
    """The event loop to which the connections in the pool of an engine belong: no other loop can use them.

    A worker starts a new loop in place of one that a timeout has ended, and the runner `threads` has one for each
    thread.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None

    def check(self) -> None:
        """Called in the loop that is about to use the engine."""
        if isinstance(self._engine.sync_engine.pool, NullPool):
            return
        running = asyncio.get_running_loop()
        with self._lock:
            before = None if self._loop is None else self._loop()
            if before is running:
                return
            if before is not None and not before.is_closed():
                raise SettingsError(
                    "this async engine keeps connections for the event loop of another thread; create it with "
                    "poolclass=sqlalchemy.pool.NullPool, or choose the runner event_loop or process"
                )
            if self._loop is not None:
                self._engine.sync_engine.dispose(close=False)  # closing needs the loop that has ended
            self._loop = weakref.ref(running)
