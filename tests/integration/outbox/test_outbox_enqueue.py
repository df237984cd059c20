"""A job goes into the outbox of the caller's database, in the caller's transaction."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tenure import Tenure
from tenure.app.outbox import create_table, sql
from tenure.errors import BackendError, InvalidJob, SchemaError, UnknownBackend
from tenure.wire.signing import new_key
from tests.integration.backends import test_async_transactions, test_caller_transactions
from tests.integration.backends.test_caller_transactions import raw, url_of
from tests.support.outboxes import make_outbox, outbox_rows, outbox_url

KEY = new_key().dump()
NOWHERE = "redis://127.0.0.1:1/0"  # no server is there: the outbox does not need one
COLUMNS = "id, backend, queue, handler, name, priority, only_one, tags, due, created"
ROWS = f"SELECT {COLUMNS} FROM tenure_outbox ORDER BY number"


@pytest.fixture
def app():
    with Tenure(NOWHERE, keys=[KEY], backends={"other": NOWHERE}) as app:
        app.job(greet)
        yield app


def greet(name: str) -> None:
    """Never called here."""


def job(app, who="Ada", **options):
    return app.define("greet", {"name": who}).build().replace(**options)


def rows(url, statement=ROWS):
    return outbox_rows(url, statement=statement)


@pytest.fixture(params=test_caller_transactions.HOLDERS, ids=lambda each: f"{each[0]}-{each[1].__name__}")
def held(request, tmp_path):
    """The URL of a database with an outbox, and a connection to it."""
    kind, holder = request.param
    url = outbox_url(request, kind, tmp_path)
    with holder(url) as connection:
        yield url, connection


def test_a_job_is_stored_when_the_caller_commits(app, held):
    url, connection = held

    handle = app.outbox(connection).enqueue(job(app, priority=8, name="n", tags=("a", "b"), unique="u"), "other")
    before = rows(url)
    connection.commit()

    ((id, *facts, due, created),) = rows(url)
    assert before == []
    assert (id, facts) == (handle, ["other", "default", "greet", "n", 8, "u", "a,b"])
    assert due == 0
    assert created > 1_700_000_000_000_000


def test_a_job_is_gone_when_the_caller_rolls_back(app, held):
    url, connection = held

    app.outbox(connection).enqueue(job(app))
    connection.rollback()

    assert rows(url) == []


def test_many_jobs_keep_their_order(app, held):
    url, connection = held

    handles = app.outbox(connection).enqueue_many(job(app, f"n{number}") for number in range(1203))
    connection.commit()

    assert [id for (id,) in rows(url, "SELECT id FROM tenure_outbox ORDER BY number")] == handles


def test_a_delay_counts_from_the_enqueue(app, held):
    url, connection = held

    app.outbox(connection).enqueue(job(app, delay=90.0))
    app.outbox(connection).enqueue(job(app, at=1_800_000_000))
    connection.commit()

    (*_, due, created), (*_, at, _) = rows(url)
    assert due - created == 90_000_000
    assert at == 1_800_000_000_000_000


def test_a_missing_table_is_explained(app, request, tmp_path):
    for kind in test_caller_transactions.SERVERS:
        with (
            raw(url_of(request, kind, tmp_path)) as connection,
            pytest.raises(SchemaError, match="tenure outbox migrate"),
        ):
            app.outbox(connection).enqueue(job(app))


def test_creating_the_table_again_changes_nothing(request, tmp_path):
    for kind in test_caller_transactions.SERVERS:
        with raw(url_of(request, kind, tmp_path)) as connection:
            first, second = create_table(connection), create_table(connection)
            connection.commit()

        assert (first, second) == (["0001_outbox.sql"], [])


def test_the_script_creates_the_same_table(app):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(sql("sqlite"))

        assert create_table(connection) == []
        app.outbox(connection).enqueue(job(app))


def test_on_a_connection_that_commits_by_itself_the_row_is_there_at_once(app, tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    make_outbox(url)
    with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as connection:
        app.outbox(connection).enqueue(job(app))

    assert len(rows(url)) == 1


def test_a_mysql_connection_must_be_in_a_transaction(app, mariadb_url):
    make_outbox(mariadb_url)
    with raw(mariadb_url) as connection:
        connection.autocommit(True)

        with pytest.raises(BackendError, match="begin a transaction"):
            app.outbox(connection).enqueue(job(app))


def test_a_refused_statement_leaves_the_transaction_of_the_caller_as_it_was(app, tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    make_outbox(url)
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON tenure_outbox WHEN NEW.name = 'second' BEGIN "
                           "SELECT RAISE(ABORT, 'no'); END")  # fmt: skip
        connection.execute("CREATE TABLE order_row (id INTEGER)")
        connection.execute("INSERT INTO order_row VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError):
            app.outbox(connection).enqueue_many([job(app, name="first"), job(app, name="second")])
        connection.commit()

    assert rows(url) == []
    assert rows(url, "SELECT id FROM order_row") == [(1,)]


def test_what_is_no_connection_is_refused(app):
    with pytest.raises(BackendError, match="no connection to a SQL database"):
        app.outbox("sqlite:///app.db").enqueue(job(app))


def test_a_backend_must_have_a_name(app):
    with closing(sqlite3.connect(":memory:")) as connection:
        create_table(connection)
        outbox = app.outbox(connection)

        with pytest.raises(UnknownBackend, match="did you mean 'other'"):
            outbox.enqueue(job(app), "othr")
        with pytest.raises(UnknownBackend, match="'redis://host/0' is in the setting backends"):
            outbox.enqueue(job(app), "redis://:secret@host/0")


def test_a_unique_job_cannot_be_refused_later(app):
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(InvalidJob, match="only the relay finds"),
    ):
        app.outbox(connection).enqueue(job(app, unique="u", duplicate="refuse"))


def test_a_backend_that_runs_jobs_on_put_is_refused():
    with Tenure("sync://") as app:
        app.job(greet)

        with pytest.raises(BackendError, match="runs jobs when they are put"):
            app.outbox(object()).enqueue(job(app))


def test_in_an_override_a_job_goes_to_its_backend_at_once(app):
    with app.override("memory://") as test:
        handle = app.outbox(object()).enqueue(job(app))
        (second,) = app.outbox(object()).enqueue_many([job(app)])

        assert test.jobs.get(handle).state == test.jobs.get(second).state == "ready"


@pytest.mark.parametrize("name", test_async_transactions.HOLDERS)
def test_a_job_joins_the_transaction_of_an_async_connection(app, name, request, tmp_path):
    kind, opened = test_async_transactions.HOLDERS[name]
    url = outbox_url(request, kind, tmp_path)

    async def enqueue(end):
        async with opened(url) as (connection, commit, rollback):
            one = await app.outbox(connection).aenqueue(job(app, delay=5.0))
            many = await app.outbox(connection).aenqueue_many([job(app, "Ben"), job(app, "Cid")])
            await {"commit": commit, "rollback": rollback}[end]()
            return [one, *many]

    dropped = asyncio.run(enqueue("rollback"))
    kept = asyncio.run(enqueue("commit"))

    assert [row[0] for row in rows(url)] == kept
    assert not set(kept) & set(dropped)


def test_an_async_connection_must_be_awaited(app, tmp_path):
    async def enqueue():
        async with test_async_transactions.aiosqlite_connection(f"sqlite:///{tmp_path}/app.db") as (connection, *_):
            app.outbox(connection).enqueue(job(app))

    with pytest.raises(BackendError, match="async connection"):
        asyncio.run(enqueue())


def test_an_async_caller_may_use_a_plain_connection(app, tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    make_outbox(url)
    with raw(url) as connection:
        asyncio.run(app.outbox(connection).aenqueue(job(app)))
        connection.commit()

    assert len(rows(url)) == 1
