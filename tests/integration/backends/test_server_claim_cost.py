"""On a server, a claim costs the same with any backlog, without statistics and with dead rows."""

import re

import psycopg
import pymysql
import pytest

from tenure.backends.messages import Ack
from tenure.backends.sql.mysql import connection as mysql_session
from tenure.backends.sql.postgresql import claims
from tenure.backends.sql.postgresql import connection as postgresql
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tests.support.servers.fixtures import _login


@pytest.fixture
def postgres(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        backend = open_backend(postgres_url, SystemClock())
        for table in ("job", "ready", "delayed", "lease", "outcome"):
            connection.execute(f"ALTER TABLE tenure_{table} SET (autovacuum_enabled = off)")
        yield backend
        backend.close()


@pytest.fixture
def mariadb(mariadb_url):
    backend = open_backend(mariadb_url, SystemClock())
    yield backend
    backend.close()


def put_many(backend, message, numbers):
    numbers = list(numbers)
    for first in range(0, len(numbers), 5000):
        backend.put([message(number, priority=number % 10) for number in numbers[first : first + 5000]])


def claim_and_ack(backend):
    leases = backend.lease(["mail"], limit=100, seconds=60)
    assert len(leases) == 100
    backend.ack([Ack(lease=lease) for lease in leases])


def test_a_claim_reads_as_much_with_a_thousand_as_with_fifty_thousand_waiting(postgres, message, monkeypatch):
    buffers = []
    real = postgresql.rows_on

    def explained(connection, statement, parameters):
        if statement is claims.CLAIM:
            connection.execute("BEGIN")
            rows = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT) {statement}", parameters).fetchall()
            connection.execute("ROLLBACK")
            plan = "\n".join(row[0] for row in rows)
            assert "Seq Scan" not in plan, plan
            buffers.append(sum(map(int, re.search(r"shared hit=(\d+)(?: read=(\d+))?", plan).groups("0"))))
        return real(connection, statement, parameters)

    put_many(postgres, message, range(1000))
    claim_and_ack(postgres)
    monkeypatch.setattr(postgresql, "rows_on", explained)
    claim_and_ack(postgres)
    few = buffers[-1]
    put_many(postgres, message, range(10_000, 60_000))
    claim_and_ack(postgres)
    assert buffers[-1] <= few * 1.3 + 50


def test_a_forgotten_snapshot_does_not_slow_claims_down(postgres, postgres_url, message):
    put_many(postgres, message, range(6000))
    with psycopg.connect(postgres_url) as forgotten, psycopg.connect(postgres_url, autocommit=True) as connection:
        forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT 1 FROM tenure_job LIMIT 1")

        def reads():
            connection.execute("SELECT pg_stat_clear_snapshot()")
            return connection.execute(
                "SELECT idx_tup_read FROM pg_stat_all_indexes WHERE indexrelname = 'tenure_ready_pkey'"
            ).fetchone()[0]

        for _ in range(40):
            claim_and_ack(postgres)
        postgres.close()
        assert reads() < 40 * 100 * 10


def test_a_claim_examines_as_many_rows_with_a_thousand_as_with_fifty_thousand_waiting(
    mariadb, mariadb_url, message, monkeypatch
):
    read = []
    real = mysql_session.MysqlSession.send

    def counted(session, *packet):
        if not any("FOR UPDATE" in statement and "tenure_ready" in statement for statement in packet):
            return real(session, *packet)
        session._cursor.execute("FLUSH STATUS")
        answers = real(session, *packet)
        session._cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        read.append(sum(int(value) for _, value in session._cursor.fetchall()))
        return answers

    put_many(mariadb, message, range(1000))
    monkeypatch.setattr(mysql_session.MysqlSession, "send", counted)
    claim_and_ack(mariadb)
    few = read[-1]
    monkeypatch.setattr(mysql_session.MysqlSession, "send", real)
    put_many(mariadb, message, range(10_000, 60_000))
    monkeypatch.setattr(mysql_session.MysqlSession, "send", counted)
    claim_and_ack(mariadb)
    assert read[-1] <= few + 20


@pytest.mark.parametrize("count", [1, 2, 50])
def test_rows_are_deleted_by_key_however_many_there_are(mariadb, mariadb_url, message, count):
    put_many(mariadb, message, range(3000))
    with pymysql.connect(**_login(mariadb_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT queue, `rank`, `key` FROM tenure_ready ORDER BY `rank`, `key` LIMIT %s", (count,))
        rows = cursor.fetchall()
        keys = ",".join(str(key) for _, _, key in rows)
        cursor.execute(
            f"EXPLAIN DELETE FROM tenure_ready WHERE queue = 'mail' AND `rank` = {rows[0][1]} AND `key` IN ({keys})"
        )
        (plan,) = cursor.fetchall()
    assert plan[3] == "range"
    assert int(plan[8]) <= count
