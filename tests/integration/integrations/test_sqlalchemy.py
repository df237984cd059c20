"""SQLAlchemy: jobs in transactions and savepoints, a session for each job, and engines that do not cross a fork."""

import asyncio
import gc
import json
import weakref
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, event, func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from tenure import PROVIDED, Snooze, Tenure
from tenure.errors import InvalidHandler, SettingsError
from tenure.integrations.sqlalchemy import dispose_after_fork, provide_session
from tenure.wire.signing import new_key
from tests.support.outboxes import make_outbox

KEY = new_key().dump()
DRIVERS = {"sqlite": "sqlite", "postgres": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
ASYNC_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgres psycopg": "postgresql+psycopg_async",
}


class Table(DeclarativeBase):
    pass


class Order(Table):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def url_of(request, kind, tmp_path):
    """An empty database; those of the servers serve all tests of this file."""
    name = kind.split()[0]
    if name == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    url, empty = request.getfixturevalue(f"{name}_place")
    empty()
    return url


def make_tables(engine):
    Table.metadata.drop_all(engine)
    Table.metadata.create_all(engine)


def with_driver(url, driver):
    return url.replace(urlsplit(url).scheme, driver, 1)


@pytest.fixture(params=DRIVERS)
def place(request, tmp_path):
    """An app, and an engine for its database."""
    url = url_of(request, request.param, tmp_path)
    engine = create_engine(with_driver(url, DRIVERS[request.param]))
    with Tenure(url, keys=[KEY]) as app:
        app.migrate()
        make_tables(engine)
        yield app, engine
    engine.dispose()


@pytest.fixture(params=ASYNC_DRIVERS)
def async_place(request, tmp_path):
    """An app, and what makes an async engine for its database."""
    url = url_of(request, request.param, tmp_path)
    engine = create_engine(with_driver(url, DRIVERS[request.param.split()[0]]))
    with Tenure(url, keys=[KEY]) as app:
        app.migrate()
        make_tables(engine)
        engine.dispose()
        yield app, with_driver(url, ASYNC_DRIVERS[request.param])


@asynccontextmanager
async def async_engine(url):
    engine = create_async_engine(url)
    yield engine
    await engine.dispose()


def greet(name: str) -> str:
    return f"hello {name}"


def names(app):
    """Whom the stored jobs greet, also those that have ended."""
    return sorted(app.jobs.get(job.id).payload["name"] for job in app.jobs.find(handler="greet"))


@contextmanager
def connection_of(engine):
    with engine.connect() as connection:
        yield connection


@contextmanager
def session_of(engine):
    with Session(engine) as session:
        yield session


@contextmanager
def scoped_session_of(engine):
    with scoped_session(sessionmaker(engine))() as session:
        yield session


HOLDERS = [connection_of, session_of, scoped_session_of]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_job_joins_the_transaction_that_its_enqueue_begins(place, holder):
    app, engine = place
    job = app.job(greet)
    with holder(engine) as held:
        job.using(connection=held).enqueue(name="lost")
        assert held.in_transaction()
        held.rollback()
        job.using(connection=held).enqueue(name="kept")
        held.commit()
    assert names(app) == ["kept"]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_rollback_to_a_savepoint_takes_back_only_the_jobs_after_it(place, holder):
    app, engine = place
    job = app.job(greet)
    with holder(engine) as held, held.begin():
        job.using(connection=held).enqueue(name="before")
        savepoint = held.begin_nested()
        job.using(connection=held).enqueue(name="inside")
        savepoint.rollback()
        with held.begin_nested():
            job.using(connection=held).enqueue(name="released")
    assert names(app) == ["before", "released"]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_released_savepoint_does_not_survive_the_rollback_of_its_transaction(place, holder):
    app, engine = place
    job = app.job(greet)
    with holder(engine) as held:
        held.execute(text("INSERT INTO orders (id) VALUES (1)"))
        with held.begin_nested():
            job.using(connection=held).enqueue(name="lost")
        held.rollback()
    assert names(app) == []


def test_a_failed_flush_in_a_savepoint_leaves_the_job_of_the_outer_transaction(place):
    app, engine = place
    job = app.job(greet)
    with Session(engine) as session, session.begin():
        session.add(Order(id=1))
        job.using(connection=session).enqueue(name="kept")
        session.flush()
        savepoint = session.begin_nested()
        job.using(connection=session).enqueue(name="lost")
        with pytest.raises(IntegrityError):
            session.execute(text("INSERT INTO orders (id) VALUES (1)"))
        savepoint.rollback()
    assert names(app) == ["kept"]


@asynccontextmanager
async def async_connection_of(engine):
    async with engine.connect() as connection:
        yield connection


@asynccontextmanager
async def async_session_of(engine):
    async with async_sessionmaker(engine)() as session:
        yield session


@asynccontextmanager
async def async_scoped_session_of(engine):
    async with async_scoped_session(async_sessionmaker(engine), asyncio.current_task)() as session:
        yield session


@pytest.mark.parametrize("holder", [async_connection_of, async_session_of, async_scoped_session_of])
def test_async_jobs_follow_their_transaction_and_its_savepoints(async_place, holder):
    app, url = async_place
    job = app.job(greet)

    async def main():
        async with async_engine(url) as engine, holder(engine) as held:
            await job.using(connection=held).aenqueue(name="lost")
            await held.rollback()
            await job.using(connection=held).aenqueue(name="before")
            savepoint = await held.begin_nested()
            await job.using(connection=held).aenqueue(name="inside")
            await savepoint.rollback()
            async with held.begin_nested():
                await job.using(connection=held).aenqueue(name="released")
            await held.commit()

    asyncio.run(main())
    assert names(app) == ["before", "released"]


def test_savepoints_of_sqlite_hold_from_the_first_statement_where_sqlalchemy_begins_the_transaction(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/jobs.db")
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app, Session(engine) as session:
        app.migrate()
        job = app.job(greet)
        with session.begin_nested():
            job.using(connection=session).enqueue(name="lost")
        session.rollback()
        with session.begin_nested():
            job.using(connection=session).enqueue(name="kept")
        session.commit()
        assert names(app) == ["kept"]
    engine.dispose()


@pytest.mark.parametrize("commit", [True, False])
def test_a_job_has_a_session_of_its_own_and_commits_by_itself_or_has_it_done(place, commit):
    app, engine = place
    provide_session(app, sessionmaker(engine), commit=commit)
    seen = []

    @app.job
    def place_order(id: int, session: Session = PROVIDED) -> bool:
        seen.append(session)
        session.add(Order(id=id))
        if not commit and id == 2:
            session.commit()
        return session.in_transaction()

    for id in (1, 2):
        place_order.enqueue(id)
    app.worker(burst=True).run()
    assert seen[0] is not seen[1]
    assert not any(session.in_transaction() for session in seen)
    with Session(engine) as session:
        assert list(session.scalars(select(Order.id).order_by(Order.id))) == ([1, 2] if commit else [2])
    assert engine.pool.checkedout() == 0


@pytest.mark.parametrize("error", [ValueError("no luck"), Snooze("1h")], ids=["failure", "snooze"])
def test_the_session_of_a_job_that_does_not_succeed_is_rolled_back_with_its_follow_up(place, error):
    app, engine = place
    provide_session(app, sessionmaker(engine), commit=True)
    follow_up = app.job(greet)

    @app.job
    def place_order(session: Session = PROVIDED) -> None:
        session.add(Order(id=1))
        session.flush()
        follow_up.using(connection=session).enqueue(name="lost")
        raise error

    place_order.enqueue()
    app.worker(burst=True).run()
    assert names(app) == []
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(Order)) == 0
    assert engine.pool.checkedout() == 0


def test_rows_and_follow_up_of_a_job_are_committed_together(place):
    app, engine = place
    provide_session(app, sessionmaker(engine), commit=True)
    follow_up = app.job(greet)

    @app.job
    def place_order(session: Session = PROVIDED) -> None:
        session.add(Order(id=1))
        follow_up.using(connection=session).enqueue(name="kept")
        assert names(app) == []

    place_order.enqueue()
    app.worker(burst=True).run()
    (job,) = app.jobs.find(handler="greet")
    assert job.state == "done"
    with Session(engine) as session:
        assert session.scalars(select(Order.id)).all() == [1]


def test_a_commit_that_the_database_refuses_fails_the_attempt(place):
    app, engine = place
    provide_session(app, sessionmaker(engine), commit=True)

    @app.job
    def place_order(session: Session = PROVIDED) -> None:
        session.add(Order(id=1))

    handles = [place_order.enqueue(), place_order.enqueue()]
    app.worker(burst=True).run()
    assert [handle.state for handle in handles] == ["done", "dead"]
    assert handles[1].info().history[-1].error_type == "IntegrityError"


def test_async_jobs_have_async_sessions(async_place):
    app, url = async_place
    provide_session(app, async_sessionmaker(create_async_engine(url, poolclass=NullPool)), commit=True)
    follow_up = app.job(greet)

    @app.job
    async def place_order(id: int, session: AsyncSession = PROVIDED) -> None:
        session.add(Order(id=id))
        await follow_up.using(connection=session).aenqueue(name=str(id))
        if id == 2:
            raise ValueError

    for id in (1, 2):
        place_order.enqueue(id)
    app.worker(burst=True).run()
    assert names(app) == ["1"]


@pytest.fixture
def jobs(tmp_path):
    """An app whose jobs are in another database than the tables."""
    with Tenure(f"sqlite:///{tmp_path}/others.db") as app:
        yield app


def test_jobs_for_another_database_follow_the_session_and_its_savepoints_through_the_outbox(place, jobs):
    app, engine = place
    make_outbox(app.settings.url)
    job = jobs.job(greet)
    with sessionmaker(engine).begin() as session:
        session.add(Order(id=1))
        jobs.outbox(session).enqueue(job.build(name="kept"))
        savepoint = session.begin_nested()
        jobs.outbox(session).enqueue(job.build(name="lost"))
        savepoint.rollback()
    jobs.outboxes.on(app.settings.url).move()
    assert names(jobs) == ["kept"]


def test_a_job_with_an_async_session_enqueues_to_another_database_through_the_outbox(async_place, jobs):
    app, url = async_place
    provide_session(jobs, async_sessionmaker(create_async_engine(url, poolclass=NullPool)), commit=True)
    make_outbox(app.settings.url)
    follow_up = jobs.job(greet)

    @jobs.job
    async def place_order(id: int, session: AsyncSession = PROVIDED) -> None:
        session.add(Order(id=id))
        await jobs.outbox(session).aenqueue(follow_up.build(name=str(id)))
        if id == 2:
            raise ValueError

    for id in (1, 2):
        place_order.enqueue(id)
    jobs.worker(burst=True).run()
    jobs.outboxes.on(app.settings.url).move()
    assert names(jobs) == ["1"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncpg: nothing can close them now
def test_a_pool_whose_event_loop_has_ended_is_replaced(async_place):
    app, url = async_place
    engine = create_async_engine(url)
    provide_session(app, async_sessionmaker(engine), commit=True)

    @app.job
    async def place_order(id: int, session: AsyncSession = PROVIDED) -> None:
        session.add(Order(id=id))

    handles = []
    for id in (1, 2):  # each worker runs its async jobs in a loop of its own, which ends with it
        handles.append(place_order.enqueue(id))
        app.worker(burst=True).run()
    assert [handle.state for handle in handles] == ["done", "done"]
    engine.sync_engine.dispose(close=False)
    gc.collect()


def test_a_pool_of_another_live_event_loop_is_refused_with_advice(tmp_path):
    app = Tenure("memory://")
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/orders.db", poolclass=AsyncAdaptedQueuePool)
    provide_session(app, async_sessionmaker(engine))

    @app.job
    async def look(session: AsyncSession = PROVIDED) -> int:
        return await session.scalar(select(1))

    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert first.run(look()) == 1
        with pytest.raises(SettingsError, match=r"NullPool, or choose the runner event_loop or process"):
            second.run(look())
        first.run(engine.dispose())


def test_handlers_ask_for_the_class_of_the_sessionmaker_or_for_a_given_one():
    class Orders(Session):
        pass

    class AsyncOrders(AsyncSession):
        pass

    class Archive(Session):
        pass

    app, engine = Tenure("memory://"), create_engine("sqlite://")
    provide_session(app, sessionmaker(engine))
    provide_session(app, sessionmaker(engine, class_=Orders))
    provide_session(app, sessionmaker(engine), type=Archive)
    provide_session(app, async_sessionmaker(class_=AsyncOrders))

    @app.job
    async def compare(
        session: Session = PROVIDED,
        orders: Orders = PROVIDED,
        archive: Archive = PROVIDED,
        others: AsyncOrders = PROVIDED,
    ) -> None:
        assert not isinstance(session, Orders)
        assert isinstance(orders, Orders)
        assert type(archive) is type(session) or not isinstance(archive, Archive)
        assert isinstance(others, AsyncOrders)

    asyncio.run(compare())


@pytest.mark.parametrize(
    "wrong", [create_engine("sqlite://"), Session, lambda: None], ids=["engine", "class", "function"]
)
def test_what_is_no_sessionmaker_is_refused_with_advice(wrong):
    with pytest.raises(InvalidHandler, match=r"write provide_session\(app, sessionmaker\(engine\)\)"):
        provide_session(Tenure("memory://"), wrong)


FORKS = """
import asyncio, json, os, sys
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from tenure.integrations.sqlalchemy import dispose_after_fork

url, kind, protect = sys.argv[1:]
PID = text("SELECT pg_backend_pid()")

if kind == "sync":
    engine = create_engine(url)

    def backend_pid():
        with engine.connect() as connection:
            return connection.scalar(PID)
else:
    engine = create_async_engine(url)
    runner = asyncio.Runner()

    async def find():
        async with engine.connect() as connection:
            return await connection.scalar(PID)

    def backend_pid():
        return runner.run(find())

if protect == "yes":
    assert dispose_after_fork(engine) is engine
before = backend_pid()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    if kind == "async":
        runner = asyncio.Runner()
    try:
        os.write(writer, str(backend_pid()).encode())
    except BaseException as error:
        os.write(writer, type(error).__name__.encode())
    os._exit(0)
os.waitpid(child, 0)
found = os.read(reader, 1000).decode()
print(json.dumps([before, found, backend_pid()]))
os._exit(0)
"""


@pytest.mark.parametrize(
    ("kind", "driver"),
    [("sync", "postgresql+psycopg"), ("async", "postgresql+asyncpg"), ("async", "postgresql+psycopg_async")],
)
def test_a_forked_process_opens_connections_of_its_own_and_leaves_those_of_its_parent_usable(
    postgres_url, start, finish, kind, driver
):
    (printed,) = finish(start(FORKS, with_driver(postgres_url, driver), kind, "yes"))
    before, of_child, after = json.loads(printed)
    assert of_child.isdigit()
    assert (before == after, int(of_child) != before) == (True, True)


def test_without_it_a_forked_process_shares_the_connection_of_its_parent(postgres_url, start, finish):
    (printed,) = finish(start(FORKS, with_driver(postgres_url, "postgresql+psycopg"), "sync", "no"))
    before, of_child, _ = json.loads(printed)
    assert of_child == str(before)


def test_an_engine_that_is_no_longer_used_is_not_kept_for_forks():
    engine = dispose_after_fork(create_engine("sqlite://"))
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
