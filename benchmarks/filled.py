"""Fills a backend with a long history: ended jobs and dead letters, made inside the database where it has SQL."""

import sqlite3
from collections.abc import Callable
from urllib.parse import urlsplit

from benchmarks.places import mysql_connection
from tenure import Tenure
from tenure.backends.messages import Abandon, Ack
from tenure.clock import SystemClock
from tenure.events import Run, Settlement, Status
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, Tally

QUEUES = tuple(f"q{number}" for number in range(8))
HANDLERS = 20
_CHUNK = 1000
# The keys of ended jobs and dead letters are below those of other jobs.
_JOBS = """
INSERT INTO tenure_job (key, id, queue, rank, handler, name, enqueued, due, body)
SELECT {key}, '{word}-' || n, 'q' || (n % {queues}), -5, 'h' || (n % {handlers}), 'name ' || (n % 1000),
       {now} - n * 1000, {now} - n * 1000, {body} FROM {series}
"""
_OUTCOMES = """
INSERT INTO tenure_outcome (key, queue, state, attempts, crashes, fence, finished, size, owner, seconds, output)
SELECT {key}, 'q' || (n % {queues}), 'done', 0, 0, 1, {now} - n * 1000, 300, 'worker', 0.1, 'result of ' || n
FROM {series}
"""
_LETTERS = """
INSERT INTO tenure_dead (key, id, queue, attempts, crashes, fence, died, owner, reason)
SELECT {key}, 'dead-' || n, 'q' || (n % {queues}), 1, 0, 1, {now} - n * 1000, '', 'retries_exhausted' FROM {series}
"""


def fill_history(app: Tenure, url: str, ended: int, dead: int) -> None:
    """So many ended jobs and dead letters, a millisecond apart, in eight queues and of twenty handlers."""
    assert app.backend  # opening it makes the tables
    given = {"queues": len(QUEUES), "handlers": HANDLERS, "now": SystemClock().now()}
    fill = _FILL.get(urlsplit(url).scheme)
    if fill is None:
        _fill_by_verbs(app, ended, dead)
        return

    def statements(series: Callable[[int], str], body: str) -> list[str]:
        jobs = {**given, "series": series(ended), "key": "-n", "word": "job", "body": "NULL"}
        letters = {**given, "series": series(dead), "key": f"-n - {ended}", "word": "dead", "body": body}
        made = [template.format(**jobs) for template in (_JOBS, _OUTCOMES)] if ended else []
        return [*made, *(template.format(**letters) for template in (_JOBS, _LETTERS))] if dead else made

    fill(url, statements)


Statements = Callable[[Callable[[int], str], str], list[str]]


def _fill_sqlite(url: str, statements: Statements) -> None:
    series = "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT n FROM s)"
    connection = sqlite3.connect(urlsplit(url).path[1:])
    with connection:
        for statement in statements(lambda count: series.format(count), "x''"):
            connection.execute(statement)
    connection.close()


def _fill_postgresql(url: str, statements: Statements) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements(lambda count: f"generate_series(1, {count}) AS n", "''::bytea"):
            connection.execute(statement)


def _fill_mysql(url: str, statements: Statements) -> None:
    with mysql_connection(url) as connection:
        connection.cursor().execute("SET sql_mode = 'PIPES_AS_CONCAT'")
        for statement in statements(lambda count: f"(SELECT seq AS n FROM seq_1_to_{count}) AS s", "''"):
            connection.cursor().execute(statement.replace("rank,", "`rank`,").replace("(key,", "(`key`,"))


_FILL: dict[str, Callable[[str, Statements], None]] = {
    "sqlite": _fill_sqlite,
    "postgresql": _fill_postgresql,
    "mysql": _fill_mysql,
    "mariadb": _fill_mysql,
}


def _fill_by_verbs(app: Tenure, ended: int, dead: int) -> None:
    """Put, leased, and acked or abandoned, a thousand at a time."""
    for left in range(ended + dead, 0, -_CHUNK):
        put_jobs(app, min(left, _CHUNK))
        while leases := app.backend.lease(QUEUES, limit=_CHUNK, seconds=60):
            if left > dead:
                app.backend.ack([Ack(lease=lease, output="result", seconds=0.1) for lease in leases])
            else:
                app.backend.abandon([Abandon(lease=lease, reason="retries_exhausted") for lease in leases])


def put_jobs(app: Tenure, count: int) -> None:
    """So many ready jobs of the same queues and handlers."""
    handlers = [app.define(f"h{number}") for number in range(HANDLERS)]
    app.enqueue_many(
        handlers[n % HANDLERS].queue(QUEUES[n % len(QUEUES)]).named(f"name {n % 1000}").build() for n in range(count)
    )


def add_handlers(app: Tenure) -> None:
    for number in range(HANDLERS):
        app.job(name=f"h{number}")(_noop)


def _noop() -> None:
    """Does nothing."""


def count_slots(app: Tenure) -> None:
    """A day of statistics, as a fleet that has run twenty handlers on eight queues leaves it."""
    stats = app.parts().stats
    if stats is None:
        return
    counts = Counts()
    runs = [Run("h", 0, number / 50, wait=number / 100) for number in range(200)]
    counts.add(*[Settlement("id", "q", Status.ACKED, 1, None, False, run) for run in runs])
    now = SystemClock().now() // SLOT_MICROSECONDS * SLOT_MICROSECONDS
    for slot in range(now - 86_400_000_000, now + 1, SLOT_MICROSECONDS):
        stats.save([Tally(slot, QUEUES[n % len(QUEUES)], f"h{n}", "", counts) for n in range(HANDLERS)])
