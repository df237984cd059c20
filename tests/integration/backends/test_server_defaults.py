"""Servers whose defaults Tenure cannot change are refused, or their errors say what to change; nothing is stored half.

The defaults that Tenure overrides are in the places called "unusual", on which the conformance suite runs.
"""

from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
import redis

from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.errors import BackendError, BackendUnavailable
from tenure.testing.conformance.messages import make, numbers, take


def opened(url):
    return closing(open_backend(url, SystemClock()))


@pytest.fixture
def odd_database(postgres_url):
    """Creates a database with options, and drops it."""
    made = []
    with psycopg.connect(postgres_url, autocommit=True) as owner:

        def create(name, options):
            owner.execute(f"CREATE DATABASE {name} {options}")
            made.append(name)
            return urlsplit(postgres_url)._replace(path=f"/{name}").geturl()

        yield create
        for name in made:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_postgresql_database_that_cannot_store_every_character_is_refused(odd_database, postgres_url, encoding):
    name = f"{urlsplit(postgres_url).path.strip('/')}_{encoding.lower()}"
    url = odd_database(name, f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(BackendError, match=rf"encoding {encoding}.*ENCODING 'UTF8'") as refused:
        open_backend(url, SystemClock())
    assert not isinstance(refused.value, BackendUnavailable)  # it does not pass by waiting
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'tenure%'").fetchone() == (0,)


def test_a_postgresql_role_without_a_schema_is_told_to_set_one(postgres_url):
    with pytest.raises(BackendError, match="search_path") as refused:
        open_backend(f"{postgres_url}?options=-csearch_path%3D", SystemClock())
    assert not isinstance(refused.value, BackendUnavailable)


def test_options_with_spaces_reach_the_postgresql_server(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA shop")
    with opened(f"{postgres_url}?options=-c%20search_path%3Dshop"), psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'tenure%'")
        assert found.fetchall() == [("shop",)]


def test_a_postgresql_url_without_a_host_is_one_for_libpq(postgres_url, tmp_path, monkeypatch):
    parts = urlsplit(postgres_url)
    place = f"host={parts.hostname}\nport={parts.port}\nuser={parts.username}\ndbname={parts.path.strip('/')}\n"
    (tmp_path / "services").write_text(f"[shop]\n{place}")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    with opened("postgresql:///?service=shop") as backend:
        assert numbers(take(backend)) == []


def test_a_postgresql_server_that_is_read_only_is_waited_for(postgres_url):
    """Behind a pooler Tenure cannot override the default; a standby refuses with the same error."""
    with opened(f"{postgres_url}?listen=off") as backend:
        with psycopg.connect(postgres_url, autocommit=True) as owner:
            owner.execute(f"ALTER DATABASE {owner.info.dbname} SET default_transaction_read_only = on")
            owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        with pytest.raises(BackendUnavailable, match="read-only transaction"):
            backend.put([make(1)])


def test_a_mariadb_password_is_sent_as_utf_8(mariadb_url):
    parts = urlsplit(mariadb_url)
    user = parts.path.strip("/")[:32]
    with closing(pymysql.connect(host=parts.hostname, port=parts.port, user="root", autocommit=True)) as owner:
        cursor = owner.cursor()
        cursor.execute(f"CREATE USER '{user}'@'%%' IDENTIFIED BY %s", ("ö€",))
        try:
            cursor.execute(f"GRANT ALL ON `{parts.path.strip('/')}`.* TO '{user}'@'%'")
            place = f"{user}:%C3%B6%E2%82%AC@{parts.hostname}:{parts.port}"
            with opened(parts._replace(netloc=place).geturl()) as backend:
                assert numbers(take(backend)) == []
        finally:
            cursor.execute(f"DROP USER '{user}'@'%'")


def test_a_mariadb_server_that_is_read_only_is_waited_for(own_server):
    server = own_server("mariadb")
    with closing(pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True)) as admin:
        cursor = admin.cursor()
        cursor.execute("CREATE DATABASE jobs")
        cursor.execute("CREATE USER app@'%'")
        cursor.execute("GRANT ALL ON jobs.* TO app@'%'")
        with opened(f"mysql://app@127.0.0.1:{server.port}/jobs") as backend:
            cursor.execute("SET GLOBAL read_only = ON")
            with pytest.raises(BackendUnavailable, match="read-only"):
                backend.put([make(1)])
            cursor.execute("SET GLOBAL read_only = OFF")
            backend.put([make(1)])
            assert numbers(take(backend)) == [1]


def test_a_mariadb_server_whose_log_holds_statements_is_refused(own_server):
    server = own_server("mariadb", more=["--log-bin=log", "--server-id=1", "--binlog-format=STATEMENT"])
    with closing(pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True)) as admin:
        admin.cursor().execute("CREATE DATABASE jobs")
    with pytest.raises(BackendError, match=r"binlog_format.*STATEMENT.*ROW or MIXED") as refused:
        open_backend(f"mysql://root@127.0.0.1:{server.port}/jobs", SystemClock())
    assert not isinstance(refused.value, BackendUnavailable)


def test_a_redis_replica_is_waited_for(own_server):
    server = own_server("redis")
    with opened(server.url) as backend, redis.Redis.from_url(server.url) as client:
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(BackendUnavailable, match="replica"):
            backend.put([make(1)])
        client.replicaof("NO", "ONE")
        backend.put([make(1)])
        assert numbers(take(backend)) == [1]


@pytest.mark.parametrize("command", ["EVALSHA", "INFO"])
def test_a_redis_server_without_a_command_is_refused_with_its_name(own_server, command):
    url = own_server("redis", more=["--rename-command", command, ""]).url
    with pytest.raises(BackendError, match=command) as refused:
        open_backend(url, SystemClock()).put([make(1)])
    assert not isinstance(refused.value, BackendUnavailable)
