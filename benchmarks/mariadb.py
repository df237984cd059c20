"""What the contract costs on MariaDB: Tenure against the plainest loops that PyMySQL allows, in the same run."""

import time
from collections.abc import Callable
from contextlib import closing
from statistics import median
from urllib.parse import urlsplit

import pymysql

from benchmarks.bench import bench, span_rate
from benchmarks.places import server_of
from tests.support.servers import started

_ROUNDS = 3
_BATCH = 100
_BODY = b"x" * 330  # as long as a no-op job is, sealed
_TABLE = """
CREATE TABLE raw_job (
    id BIGINT AUTO_INCREMENT PRIMARY KEY, queue VARCHAR(100) NOT NULL, state TINYINT NOT NULL, leased DOUBLE NOT NULL,
    body VARBINARY(1000) NOT NULL, KEY claim (queue, state, id)
)
"""
_PUT = "INSERT INTO raw_job (queue, state, leased, body) VALUES ('default', 0, 0, %s)"
_PICK = "SELECT id, body FROM raw_job WHERE queue = 'default' AND state = 0 ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED"


def mariadb(jobs: int) -> dict[str, float]:
    """Jobs a second of raw inserts and of a raw two-step loop in batches of 100, and of Tenure; durable all of them."""
    figures: dict[str, list[float]] = {}
    with started("mariadb", durable=True) as server, server_of(server.url):
        for _ in range(_ROUNDS):  # interleaved: what disturbs the machine then disturbs both
            for name, measure in _MEASURES.items():
                figures.setdefault(name, []).append(measure(server.url, jobs))
    found = {f"{name} jobs/s": median(values) for name, values in figures.items()}
    return {
        **found,
        "enqueue / raw": found["enqueue jobs/s"] / found["raw insert jobs/s"],
        "drain / raw": found["drain jobs/s"] / found["raw loop jobs/s"],
        "bulk / enqueue": found["bulk jobs/s"] / found["enqueue jobs/s"],
    }


def _raw_insert(url: str, jobs: int) -> float:
    with closing(_connected(url)) as connection, connection.cursor() as cursor:
        count = min(jobs, 1000)
        begun = time.perf_counter()
        for _ in range(count):
            cursor.execute(_PUT, (_BODY,))
            connection.commit()
        return count / (time.perf_counter() - begun)


def _raw_loop(url: str, jobs: int) -> float:
    """Claim a hundred in one transaction, delete them in the next."""
    with closing(_connected(url)) as connection, connection.cursor() as cursor:
        cursor.executemany(_PUT, [(_BODY,)] * jobs)
        connection.commit()
        begun = time.perf_counter()
        while rows := _claimed(cursor):
            connection.commit()
            cursor.execute("DELETE FROM raw_job WHERE id IN %s", ([id for id, _ in rows],))
            connection.commit()
        return jobs / (time.perf_counter() - begun)


def _claimed(cursor: pymysql.cursors.Cursor) -> list[tuple[int, bytes]]:
    cursor.execute(_PICK, (_BATCH,))
    rows = list(cursor.fetchall())
    if rows:
        cursor.execute(
            "UPDATE raw_job SET state = 1, leased = %s WHERE id IN %s", (time.time(), [row[0] for row in rows])
        )
    return rows


def _connected(url: str) -> pymysql.Connection:
    """A connection to a database with an empty table."""
    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname, port=parts.port or 3306, user=parts.username, password=parts.password or ""
    )
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS raw_bench")
        cursor.execute("USE raw_bench")
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("DROP TABLE IF EXISTS raw_job")
        cursor.execute(_TABLE)
    return connection


def _enqueue(_url: str, jobs: int) -> float:
    with bench(1) as it:
        count = min(jobs, 1000)
        it.noop.enqueue(i=0)  # connected
        begun = time.perf_counter()
        for i in range(count):
            it.noop.enqueue(i=i)
        return count / (time.perf_counter() - begun)


def _bulk(_url: str, jobs: int) -> float:
    with bench(1) as it:
        it.noop.enqueue(i=0)
        begun = time.perf_counter()
        it.enqueue(range(jobs))
        return jobs / (time.perf_counter() - begun)


def _drain(_url: str, jobs: int) -> float:
    with bench(jobs) as it:
        it.enqueue(range(jobs))
        with it.worker("--burst") as process:
            process.wait()
        return span_rate(it.probe.starts())


_MEASURES: dict[str, Callable[[str, int], float]] = {
    "raw insert": _raw_insert,
    "enqueue": _enqueue,
    "bulk": _bulk,
    "raw loop": _raw_loop,
    "drain": _drain,
}
