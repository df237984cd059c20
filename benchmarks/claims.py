"""What a claim reads: pages of a SQLite file, or buffers of a server, with a large backlog against a small one."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.bench import Bench, Numbers, opened
from benchmarks.places import mysql_connection, place

LEASES = 100
CLAIMS = 3
TRIES = 3
SMALLEST = 1000  # jobs: what the claims of all tries take fits in
PAGE_BYTES = 4096
QUIET_SECONDS = 1.0  # without any reading, the server has finished what it does in the background
Opening = Callable[[], AbstractContextManager[Bench]]


def claims(jobs: int) -> Numbers:
    """Per claim of a hundred jobs, with so many waiting and with a hundredth of them: 1 000 000 against 10 000."""
    few, many = max(jobs // 100, SMALLEST), max(jobs, 2 * SMALLEST)
    with place() as (url, folder):
        count = _COUNTERS[urlsplit(url).scheme]
        with opened(url, folder, 1) as it:
            it.enqueue(range(few))
            it.app.backend.lease(["default"], limit=LEASES, seconds=3600)  # an empty table of leases is a special case
        small = _typical(count, url, lambda: opened(url, folder, 1))
        with opened(url, folder, 1) as it:
            it.enqueue(range(few, many))
        large = _typical(count, url, lambda: opened(url, folder, 1))
    return {f"{few} waiting, pages": small, f"{many} waiting, pages": large, "ratio": large / small}


def _typical(count: Callable[[str], float], url: str, opening: Opening) -> float:
    return statistics.median(_pages(count, url, opening) for _ in range(TRIES))


def _pages(count: Callable[[str], float], url: str, opening: Opening) -> float:
    """By a backend that has just been opened: its cache is empty, and what it read is known when it is closed."""
    before = count(url)
    with opening() as it:
        assert it.app.backend
    between = count(url)
    with opening() as it:
        for _ in range(CLAIMS):
            assert len(it.app.backend.lease(["default"], limit=LEASES, seconds=3600)) == LEASES
    return (count(url) - between - (between - before)) / CLAIMS


def _sqlite(url: str) -> float:  # noqa: ARG001 - as the others
    """What this process has read: the file, its log, and nothing else that would matter."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:")) / PAGE_BYTES


def _postgresql(url: str) -> float:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for (table,) in connection.execute("SELECT relname FROM pg_stat_user_tables").fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")  # it reads, too

        def read() -> float:
            blocks = "coalesce(sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit), 0)"
            found = connection.execute(f"SELECT {blocks} FROM pg_statio_user_tables").fetchone()
            return float(found[0]) if found else 0.0

        return _at_rest(read)


def _mysql(url: str) -> float:
    with mysql_connection(url) as connection, connection.cursor() as cursor:

        def read() -> float:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'")
            return float(cursor.fetchall()[0][1])

        return _at_rest(read)


def _at_rest(read: Callable[[], float]) -> float:
    """Once it does not grow any more: sessions that ended report late, and deleted rows are purged later."""
    last = read()
    while True:
        time.sleep(QUIET_SECONDS)
        if (now := read()) == last:
            return now
        last = now


_COUNTERS: dict[str, Callable[[str], float]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
}
