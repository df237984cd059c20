"""A job joins the transaction of an async connection: both are committed or rolled back together."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiosqlite
import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tenure import Tenure
from tenure.errors import BackendError, DuplicateJob
from tenure.events import Enqueued
from tenure.wire.signing import new_key

KEY = new_key().dump()


@asynccontextmanager
async def psycopg_connection(url):
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        yield connection, connection.commit, connection.rollback


@asynccontextmanager
async def asyncpg_connection(url):
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield connection, transaction.commit, transaction.rollback
    await connection.close()


@asynccontextmanager
async def asyncpg_pool(url):
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection, transaction.commit, transaction.rollback


@asynccontextmanager
async def aiosqlite_connection(url):
    async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
        connection.row_factory = sqlite3.Row
        yield connection, connection.commit, connection.rollback


@asynccontextmanager
async def engine(url, driver):
    made = create_async_engine(url.replace(urlsplit(url).scheme, driver, 1))
    yield made
    await made.dispose()


def sqlalchemy_connection(driver):
    @asynccontextmanager
    async def opened(url):
        async with engine(url, driver) as made, made.connect() as connection:
            yield connection, connection.commit, connection.rollback

    return opened


def sqlalchemy_session(driver):
    @asynccontextmanager
    async def opened(url):
        async with engine(url, driver) as made, AsyncSession(made) as session:
            yield session, session.commit, session.rollback

    return opened


HOLDERS = {
    "psycopg": ("postgres", psycopg_connection),
    "asyncpg": ("postgres", asyncpg_connection),
    "asyncpg pool": ("postgres", asyncpg_pool),
    "aiosqlite": ("sqlite", aiosqlite_connection),
    **{
        f"{driver} {make.__name__}": (kind, make(driver))
        for kind, driver in (
            ("postgres", "postgresql+psycopg"),
            ("postgres", "postgresql+asyncpg"),
            ("sqlite", "sqlite+aiosqlite"),
        )
        for make in (sqlalchemy_connection, sqlalchemy_session)
    },
}


@pytest.fixture(params=HOLDERS)
def place(request, tmp_path):
    """An app, and a context manager of a connection to its database."""
    kind, holder = HOLDERS[request.param]
    url = f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    with Tenure(url, keys=[KEY]) as app:
        app.job(name="greet")(lambda name: f"hello {name}")
        app.backend  # noqa: B018 - makes the tables
        yield app, lambda: holder(url)


def greeting(app, name="Ada", **options):
    return app.define("greet", {"name": name}).build().replace(**options)


def ready(app):
    return app.backend.queues.counts().get("default", {}).get("ready", 0)


def test_a_job_exists_when_the_callers_transaction_commits_and_then_it_runs(place):
    app, opened = place
    greet = app.job(name="again")(lambda name: f"hello again {name}")

    async def main():
        async with opened() as (connection, commit, _):
            id = await greet.using(connection=connection).aenqueue(name="Ada \N{SNOWMAN} \\ \"'{,}")
            assert app.backend.jobs.find(id) is None
            await commit()
        return id

    id = asyncio.run(main())
    app.worker(burst=True).run()
    assert app.result(id) == "hello again Ada \N{SNOWMAN} \\ \"'{,}"


def test_a_job_is_rolled_back_with_the_callers_transaction(place):
    app, opened = place

    async def main():
        async with opened() as (connection, _, rollback):
            await app.aio.enqueue(greeting(app), connection=connection)
            await rollback()

    asyncio.run(main())
    assert ready(app) == 0


def test_options_wake_and_events_are_as_for_callers_that_block(place):
    app, opened = place
    heard = []
    app.listen(heard.append)
    greet = app.job(name="later")(lambda name: None)

    async def main():
        async with opened() as (connection, commit, _):
            using = greet.using(delay="1h", priority="high").using(connection=connection, wake=True)
            id = await using.aenqueue(name="Ada")
            await commit()
        return id

    id = asyncio.run(main())
    record = app.backend.jobs.find(id)
    assert (record.state, record.priority) == ("delayed", 8)
    assert heard == [Enqueued("default", "later", (id,))]


def test_a_unique_job_sees_the_jobs_of_its_own_transaction_and_of_others(place):
    app, opened = place
    before = app.enqueue(greeting(app, unique="old"))

    async def main():
        async with opened() as (connection, commit, _):

            async def enqueue(unique, duplicate="return"):
                return await app.aio.enqueue(greeting(app, unique=unique, duplicate=duplicate), connection=connection)

            first = await enqueue("new")
            assert await enqueue("new") == first
            assert await enqueue("old") == before
            with pytest.raises(DuplicateJob, match=f"job {first} with unique 'new'"):
                await enqueue("new", duplicate="refuse")
            await commit()
            return first

    first = asyncio.run(main())
    assert app.backend.jobs.find(first).state == "ready"
    assert ready(app) == 2


def test_an_error_after_the_enqueue_leaves_no_job(place):
    app, opened = place

    async def main():
        async with opened() as (connection, _, rollback):
            try:
                await app.aio.enqueue(greeting(app), connection=connection)
                raise ValueError("the caller failed")
            except ValueError:
                await rollback()

    asyncio.run(main())
    assert ready(app) == 0


def test_enqueue_refuses_an_async_connection_and_says_what_to_write(place):
    app, opened = place

    async def main():
        async with opened() as (connection, *_):
            with pytest.raises(BackendError, match=r"is an async connection.*\.aenqueue\(\.\.\.\)"):
                app.enqueue(greeting(app), connection=connection)

    asyncio.run(main())


def test_a_sync_connection_cannot_be_awaited(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.job(name="greet")(lambda name: None)
        connection = sqlite3.connect(tmp_path / "jobs.db")
        with pytest.raises(BackendError, match=r"sqlite3\.Connection cannot be awaited .* call enqueue"):
            asyncio.run(app.aio.enqueue(greeting(app), connection=connection))
        connection.close()


def test_an_asyncpg_connection_without_a_transaction_is_refused(postgres_url):
    with Tenure(postgres_url, keys=[KEY]) as app:
        app.job(name="greet")(lambda name: None)

        async def main():
            connection = await asyncpg.connect(postgres_url)
            with pytest.raises(BackendError, match="begin a transaction on it first"):
                await app.aio.enqueue(greeting(app), connection=connection)
            await connection.close()

        asyncio.run(main())
        assert ready(app) == 0


def test_a_statement_that_fails_before_the_enqueue_leaves_the_transaction_as_postgresql_says(postgres_url):
    with Tenure(postgres_url, keys=[KEY]) as app:
        app.job(name="greet")(lambda name: None)

        async def main():
            async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
                with pytest.raises(psycopg.errors.UndefinedTable):
                    await connection.execute("SELECT * FROM nothing")
                with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                    await app.aio.enqueue(greeting(app), connection=connection)

        asyncio.run(main())
        assert ready(app) == 0


def test_an_enqueue_that_fails_in_the_middle_is_undone_and_the_callers_rows_stay(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.job(name="greet")(lambda name: None)
        app.backend  # noqa: B018 - makes the tables

        async def main():
            async with aiosqlite.connect(tmp_path / "jobs.db") as connection:
                await connection.execute("CREATE TABLE own (name TEXT)")
                await connection.execute("INSERT INTO own VALUES ('kept')")
                await connection.execute("DROP TABLE tenure_ready")
                with pytest.raises(sqlite3.OperationalError, match="no such table: tenure_ready"):
                    await app.aio.enqueue(greeting(app), connection=connection)
                jobs = await (await connection.execute("SELECT count(*) FROM tenure_job")).fetchall()
                own = await (await connection.execute("SELECT name FROM own")).fetchall()
                await connection.rollback()
                return jobs, own

        assert asyncio.run(main()) == ([(0,)], [("kept",)])


def test_a_connection_to_another_file_or_kind_of_database_is_refused(tmp_path, postgres_url):
    with Tenure(postgres_url, keys=[KEY]) as on_server, Tenure(f"sqlite:///{tmp_path}/jobs.db") as on_file:
        for app in (on_server, on_file):
            app.job(name="greet")(lambda name: None)

        async def main():
            async with aiosqlite.connect(tmp_path / "another.db") as connection:
                with pytest.raises(BackendError, match="cannot be awaited for a job on the postgresql database"):
                    await on_server.aio.enqueue(greeting(on_server), connection=connection)
                with pytest.raises(BackendError, match="both must be in one file"):
                    await on_file.aio.enqueue(greeting(on_file), connection=connection)

        asyncio.run(main())


def test_async_drivers_of_mysql_are_refused(mariadb_url):
    class Connection:
        """Recognised by the module of its class."""

    Connection.__module__ = "aiomysql.connection"
    with Tenure(mariadb_url, keys=[KEY]) as app:
        app.job(name="greet")(lambda name: None)
        with pytest.raises(BackendError, match="cannot join a transaction of an async driver; use PyMySQL"):
            asyncio.run(app.aio.enqueue(greeting(app), connection=Connection()))


def test_backends_that_are_no_database_refuse_a_connection():
    with Tenure("memory://") as app:
        app.job(name="greet")(lambda name: None)
        with pytest.raises(BackendError, match="cannot join your transaction"):
            asyncio.run(app.aio.enqueue(greeting(app), connection=object()))
