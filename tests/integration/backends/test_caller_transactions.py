"""A job joins the caller's transaction: both are committed or rolled back together."""

import sqlite3
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from tenure import Tenure
from tenure.errors import BackendError, DuplicateJob, InvalidJob
from tenure.wire.signing import new_key
from tests.support.servers.fixtures import _login
from tests.support.waiting import WAIT_SECONDS

KEY = new_key().dump()
SERVERS = ("sqlite", "postgres", "mariadb")


def url_of(request, kind, tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")


@contextmanager
def raw(url):
    """A driver's connection, in a transaction when it is used."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    elif url.startswith("postgresql"):
        connection = psycopg.connect(url)
    else:
        connection = pymysql.connect(**_login(url))
    yield connection
    connection.close()


@contextmanager
def engine(url):
    drivers = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
    parts = urlsplit(url)
    made = sqlalchemy.create_engine(url.replace(parts.scheme, drivers.get(parts.scheme, parts.scheme), 1))
    yield made
    made.dispose()


@contextmanager
def sqlalchemy_connection(url):
    with engine(url) as made, made.connect() as connection:
        yield connection


@contextmanager
def sqlalchemy_session(url):
    with engine(url) as made, Session(made) as session:
        yield session


@contextmanager
def django_connection(url):
    from django.conf import settings
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure()
    parts = urlsplit(url)
    engines = {"sqlite": "sqlite3", "postgresql": "postgresql"}
    database = {"ENGINE": f"django.db.backends.{engines[parts.scheme]}", "NAME": parts.path.removeprefix("/")}
    if parts.scheme == "postgresql":
        database |= {"HOST": parts.hostname, "PORT": parts.port, "USER": parts.username}
    connection = ConnectionHandler({"default": database})["default"]
    connection.set_autocommit(False)
    yield connection
    connection.close()


HOLDERS = [
    *((kind, holder) for kind in SERVERS for holder in (raw, sqlalchemy_connection, sqlalchemy_session)),
    *((kind, django_connection) for kind in ("sqlite", "postgres")),
]


@pytest.fixture(params=HOLDERS, ids=[f"{kind}-{holder.__name__}" for kind, holder in HOLDERS])
def held(request, tmp_path):
    """An app, and a connection to its database."""
    kind, holder = request.param
    url = url_of(request, kind, tmp_path)
    with Tenure(url, keys=[KEY]) as app:
        app.backend  # noqa: B018 - makes the tables
        with holder(url) as connection:
            yield app, connection


@pytest.fixture(params=SERVERS)
def app(request, tmp_path):
    with Tenure(url_of(request, request.param, tmp_path), keys=[KEY]) as app:
        yield app


def greet(name: str) -> None:
    """Never called here."""


def ready(app):
    return app.backend.queues.counts().get("default", {}).get("ready", 0)


def test_a_job_exists_when_the_callers_transaction_commits_and_not_before(held):
    app, connection = held
    id = app.job(greet).using(connection=connection).enqueue(name="a")
    assert app.backend.jobs.find(id) is None
    connection.commit()
    assert app.backend.jobs.find(id).state == "ready"
    assert [lease.id for lease in app.backend.lease(["default"], limit=5, seconds=5)] == [id]


def test_a_job_is_rolled_back_with_the_callers_transaction(held):
    app, connection = held
    app.job(greet).using(connection=connection).enqueue(name="a")
    connection.rollback()
    assert ready(app) == 0


def test_options_and_connection_go_together(held):
    app, connection = held
    id = app.job(greet).using(delay="1h").using(connection=connection, priority="high").enqueue(name="a")
    connection.commit()
    assert (app.backend.jobs.find(id).state, app.backend.jobs.find(id).priority) == ("delayed", 8)


def test_tags_are_committed_and_rolled_back_with_the_callers_transaction(held):
    app, connection = held
    job = app.job(tags=["billing", "Ω"])(greet)
    id = job.using(connection=connection).enqueue(name="a")
    job.using(connection=connection, tags=(), delay=60).enqueue(name="b")
    assert app.backend.jobs.tagged("Ω", limit=5) == ([], None)
    connection.commit()
    (found,), _ = app.backend.jobs.tagged("Ω", limit=5)
    assert (found.id, found.tags, found.state) == (id, ("billing", "Ω"), "ready")
    job.using(connection=connection).enqueue(name="c")
    connection.rollback()
    assert len(app.backend.jobs.tagged("billing", limit=5)[0]) == 1


def test_a_unique_job_sees_the_jobs_of_its_own_transaction_and_of_others(held):
    app, connection = held
    job = app.job(greet)
    before = job.using(unique="old").enqueue(name="a")
    joined = job.using(connection=connection)

    first = joined.using(unique="new").enqueue(name="b")

    assert (joined.using(unique="new").enqueue(name="c"), joined.using(unique="old").enqueue(name="d")) == (
        first,
        before,
    )
    with pytest.raises(DuplicateJob, match=f"job {first} with unique 'new'"):
        joined.using(unique="new", duplicate="refuse").enqueue(name="e")
    connection.commit()
    assert (app.jobs.get(first).state, ready(app)) == ("ready", 2)


def test_a_built_job_cannot_hold_a_connection(held):
    app, connection = held
    with pytest.raises(InvalidJob, match=r"cannot hold the connection .* app\.enqueue\(job, connection=\.\.\.\)"):
        app.job(greet).using(connection=connection).using(priority="high").build(name="a")
    app.enqueue(app.job(name="again")(greet).build(name="a"), connection=connection)
    assert ready(app) == 0
    connection.commit()
    assert ready(app) == 1


def test_a_known_id_is_stored_once(held):
    app, connection = held
    job = app.job(greet).build(name="a").replace(id="0199a3b4-0000-7000-8000-000000000001")
    app.enqueue(job)
    app.enqueue(job, connection=connection)
    connection.commit()
    assert ready(app) == 1


def test_a_connection_to_another_kind_of_database_is_refused(app):
    other = sqlite3.connect(":memory:")
    with pytest.raises(BackendError, match=r"one (database|file)"):
        app.job(greet).using(connection=other).enqueue(name="a")
    other.close()


@pytest.mark.parametrize("what", [object(), "postgresql://", 7], ids=["object", "text", "number"])
def test_what_is_no_connection_is_refused(app, what):
    with pytest.raises(BackendError, match="cannot be used for a job"):
        app.job(greet).using(connection=what).enqueue(name="a")


def test_a_backend_without_transactions_says_so():
    with Tenure("memory://") as app, pytest.raises(BackendError, match="cannot join your transaction"):
        app.job(greet).using(connection=object()).enqueue(name="a")


def test_rows_may_have_any_shape(postgres_url):
    with Tenure(postgres_url, keys=[KEY]) as app, psycopg.connect(postgres_url, row_factory=dict_row) as connection:
        app.backend  # noqa: B018 - makes the tables
        app.job(greet).using(connection=connection).enqueue(name="a")
        connection.commit()
        assert ready(app) == 1


def test_a_mysql_connection_that_commits_by_itself_is_refused_outside_a_transaction(mariadb_url):
    with (
        Tenure(mariadb_url, keys=[KEY]) as app,
        pymysql.connect(**_login(mariadb_url), autocommit=True) as connection,
    ):
        job = app.job(greet)
        app.backend  # noqa: B018 - makes the tables
        with pytest.raises(BackendError, match="begin a transaction"):
            job.using(connection=connection).enqueue(name="a")
        connection.begin()
        job.using(connection=connection).enqueue(name="a")
        connection.rollback()
        assert ready(app) == 0


def test_a_sqlite_connection_that_commits_by_itself_stores_the_job_at_once(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.backend  # noqa: B018 - makes the tables
        connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        app.job(greet).using(connection=connection).enqueue(name="a")
        connection.close()
        assert ready(app) == 1


def test_workers_are_told_at_the_commit_when_that_is_asked_for(postgres_url):
    with (
        Tenure(postgres_url, keys=[KEY]) as app,
        psycopg.connect(postgres_url) as connection,
        psycopg.connect(postgres_url, autocommit=True) as listener,
    ):
        job = app.job(greet)
        app.backend  # noqa: B018 - makes the tables
        listener.execute("LISTEN tenure")
        job.using(connection=connection).enqueue(name="a")
        connection.commit()
        assert list(listener.notifies(timeout=0.2, stop_after=1)) == []
        job.using(connection=connection, wake=True).enqueue(name="a")
        connection.commit()
        assert [notice.payload for notice in listener.notifies(timeout=WAIT_SECONDS, stop_after=1)] == ["default"]
