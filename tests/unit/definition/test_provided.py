"""What the app provides to handlers: by type, opened for each job, closed after it, in the opposite order."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Annotated, Any

import pytest

from tenure import PROVIDED, Context, Tenure
from tenure.errors import InvalidHandler, InvalidPayload


class Engine:
    """Something that a session needs."""


class Session:
    """Something that is opened and closed."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine
        self.closed_by: Any = "nobody"

    def __enter__(self) -> "Session":
        self.closed_by = None
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.closed_by = kind


class AsyncSession:
    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None


@pytest.fixture
def app() -> Iterator[Tenure]:
    with Tenure("memory://") as app:
        yield app


def work(app: Tenure) -> None:
    app.worker(burst=True).run()


def test_a_handler_gets_a_new_value_for_each_job_which_is_closed_after_it(app: Tenure) -> None:
    made: list[Session] = []

    def open_session() -> Session:
        made.append(Session())
        return made[-1]

    app.provide(Session, open_session)

    @app.job
    def report(month: int, session: Session = PROVIDED) -> bool:
        return session is made[-1] and session.closed_by is None

    handles = [report.enqueue(month) for month in (6, 7)]
    work(app)
    assert [handle.result() for handle in handles] == [True, True]
    assert [session.closed_by for session in made] == [None, None]
    assert made[0] is not made[1]


def test_a_value_learns_how_its_job_failed(app: Tenure) -> None:
    ends: list[object] = []

    @contextmanager
    def session() -> Iterator[Session]:
        try:
            yield Session()
        except BaseException as error:
            ends.append(error)
            raise

    app.provide(Session, session)

    @app.job
    def report(session: Session = PROVIDED) -> None:
        raise ValueError("no rows")

    handle = report.enqueue()
    work(app)
    assert [str(error) for error in ends] == ["no rows"]
    assert handle.info().state == "dead"


def test_a_factory_cannot_hide_that_its_job_failed(app: Tenure) -> None:
    def session() -> Iterator[Session]:
        with suppress(ValueError):
            yield Session()

    async def other() -> AsyncIterator[AsyncSession]:
        with suppress(ValueError):
            yield AsyncSession()

    app.provide(Session, session)
    app.provide(AsyncSession, other)

    @app.job
    def report(session: Session = PROVIDED) -> None:
        raise ValueError("no rows")

    @app.job
    async def later(session: Session = PROVIDED, other: AsyncSession = PROVIDED) -> None:
        raise ValueError("no rows")

    handles = [report.enqueue(), later.enqueue()]
    work(app)
    assert [handle.info().state for handle in handles] == ["dead", "dead"]
    assert [handle.info().history[-1].error for handle in handles] == ["no rows", "no rows"]


def test_a_factory_cannot_hide_that_another_value_failed_at_its_end(app: Tenure) -> None:
    def engine() -> Iterator[Engine]:
        with suppress(ValueError):
            yield Engine()

    def session(engine: Engine = PROVIDED) -> Iterator[Session]:
        yield Session(engine)
        raise ValueError("not committed")

    app.provide(Engine, engine)
    app.provide(Session, session)

    @app.job
    def report(session: Session = PROVIDED) -> int:
        return 1

    handle = report.enqueue()
    work(app)
    assert handle.info().state == "dead"
    with pytest.raises(ValueError, match="not committed"):
        report()


def test_factories_take_the_context_and_other_values_each_made_once(app: Tenure) -> None:
    log: list[str] = []

    def engine(ctx: Context) -> Iterator[Engine]:
        log.append(f"engine of {ctx.handler}")
        yield Engine()
        log.append("engine closed")

    def session(engine: Engine = PROVIDED) -> Iterator[Session]:
        log.append("session")
        yield Session(engine)
        log.append("session closed")

    app.provide(Session, session)
    app.provide(Engine, engine)

    @app.job
    def report(session: Session = PROVIDED, *, engine: Engine = PROVIDED) -> bool:
        return session.engine is engine

    handle = report.enqueue()
    work(app)
    assert handle.result() is True
    assert log == ["engine of report", "session", "session closed", "engine closed"]


def test_async_handlers_take_plain_and_async_factories(app: Tenure) -> None:
    log: list[str] = []

    async def engine() -> Engine:
        return Engine()

    async def session(engine: Engine = PROVIDED) -> AsyncIterator[Session]:
        yield Session(engine)
        log.append("closed")

    app.provide(Engine, engine)
    app.provide(Session, session)
    app.provide(AsyncSession, AsyncSession)

    @app.job
    async def report(
        session: Session = PROVIDED, other: AsyncSession = PROVIDED, log: list[str] = PROVIDED
    ) -> list[str]:
        log.append("ran")
        return [type(each).__name__ for each in (session, session.engine, other)]

    app.provide(list[str], lambda: log)
    handle = report.enqueue()
    work(app)
    assert handle.result() == ["Session", "Engine", "AsyncSession"]
    assert log == ["ran", "closed"]


def test_handler_classes_and_middleware_take_them_too(app: Tenure) -> None:
    app.provide(Session, Session)
    seen: list[str] = []

    @app.middleware
    def outer(ctx: Context, proceed: Any) -> Any:
        seen.append("outer")
        return proceed()

    def inner(ctx: Context, proceed: Any) -> Any:
        seen.append("inner")
        return proceed()

    class Report:
        middleware = (inner,)

        def handle(self, ctx: Context, month: int, session: Session = PROVIDED) -> str:
            return f"{ctx.handler} of {month}, {session.closed_by}"

    app.register("report", Report)
    handle = app.handle(app.define("report", 6).dispatch())
    work(app)
    assert handle.result() == "report of 6, None"
    assert seen == ["outer", "inner"]


def test_a_direct_call_gets_them_unless_they_are_given(app: Tenure) -> None:
    app.provide(Session, Session)

    @app.job
    def report(month: int, session: Session = PROVIDED) -> tuple[int, Session]:
        return month, session

    @app.job
    def summary(ctx: Context, month: int = 1, *, session: Session = PROVIDED) -> tuple[str, int, Session]:
        return ctx.handler, month, session

    @app.job
    async def later(month: int, session: Session = PROVIDED) -> tuple[int, Session]:
        return month, session

    @app.job
    def total(month: int, session: Session = PROVIDED, *, year: int = 1) -> tuple[int, Session, int]:
        return month, session, year

    own = Session()
    assert total(6, own, year=2) == total.call(6, own, year=2) == (6, own, 2)
    assert report(6)[1].closed_by is None
    assert report(6, own) == report(month=6, session=own) == report.call(6, own) == (6, own)
    assert summary()[:2] == summary.call()[:2] == ("summary", 1)
    assert summary(month=3, session=own) == summary.call(3, session=own) == ("summary", 3, own)
    assert asyncio.run(later(6))[1].closed_by is None
    assert asyncio.run(later.call(6, session=own)) == (6, own)


def test_the_last_factory_of_a_type_counts(app: Tenure) -> None:
    app.provide(Session, Session)

    @app.job
    def report(session: Annotated[Session, "of the reports"] = PROVIDED) -> bool:
        return session.engine is not None

    app.provide(Session, lambda: Session(Engine()))
    handle = report.enqueue()
    work(app)
    assert handle.result() is True


def test_they_are_no_part_of_the_payload(app: Tenure) -> None:
    @app.job
    def report(month: int, session: Session = PROVIDED) -> None: ...

    assert report.build(6).payload == {"month": 6}
    with pytest.raises(InvalidPayload, match="wrong arguments"):
        report.enqueue(6, session=Session())


def test_what_nothing_provides_is_refused_before_a_worker_starts(app: Tenure) -> None:
    @app.job
    def report(session: Session = PROVIDED) -> None: ...

    with pytest.raises(InvalidHandler, match=r"'report' takes session: Session, and nothing provides it; call app\.pr"):
        app.worker(burst=True)

    def session(engine: Engine = PROVIDED) -> Session:
        return Session(engine)

    app.provide(Session, session)
    with pytest.raises(InvalidHandler, match="the factory of Session takes engine: Engine, and nothing provides it"):
        app.worker(burst=True)


def test_an_async_factory_is_refused_for_a_plain_handler(app: Tenure) -> None:
    @asynccontextmanager
    async def managed() -> AsyncIterator[Session]:
        yield Session()

    async def coroutine() -> Session:
        return Session()

    @app.job
    def report(session: Session = PROVIDED) -> None: ...

    for factory in (managed, coroutine):
        app.provide(Session, factory)
        with pytest.raises(InvalidHandler, match="plain function, and the factory of Session is async"):
            app.worker(burst=True)
    app.provide(Session, lambda: AsyncSession())
    with pytest.raises(InvalidHandler, match="the factory of Session is async"):
        report()


def test_factories_that_need_each_other_are_refused(app: Tenure) -> None:
    def session(engine: Engine = PROVIDED) -> Session:
        return Session(engine)

    def engine(session: Session = PROVIDED) -> Engine:
        return Engine()

    app.provide(Session, session)
    app.provide(Engine, engine)

    @app.job
    def report(session: Session = PROVIDED) -> None: ...

    with pytest.raises(InvalidHandler, match="need each other: Session → Engine → Session"):
        app.worker(burst=True)


def test_wrong_declarations_are_refused(app: Tenure) -> None:
    with pytest.raises(InvalidHandler, match="takes a function that makes the value, got 3"):
        app.provide(Session, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidHandler, match="the factory of Session takes url; a factory takes only"):
        app.provide(Session, lambda url: Session())
    with pytest.raises(InvalidHandler, match="needs a type"):

        @app.job
        def untyped(session=PROVIDED) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(InvalidHandler, match="takes 'month' behind 'session', which the app provides"):

        @app.job
        def early(session: Session = PROVIDED, month: int = 1) -> None: ...
