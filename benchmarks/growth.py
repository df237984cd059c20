"""Growth: what a long history costs. Ended jobs are copies of a real one, made inside the database.

`python -m benchmarks growth --jobs 10000000` is the long form, on SQLite, or with `--server postgresql`.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.bench import Numbers, bench, interleaved, opened
from benchmarks.drains import drain_of
from benchmarks.places import place
from tenure.clock import SystemClock

DRAINED = 20_000  # jobs of each measured drain, where the history is not shorter
WITH_PAYLOAD = 2_000_000  # at most; the payloads of older jobs are erased, as retention.payload_bytes has it
CHUNK = 200_000  # copies in a transaction
TRIM_CHUNK = 500  # as the janitor
MEGABYTE = 1_000_000
YOUNGEST = 2_000_000_000  # what the ids of copies are counted down from
# What a copy does not share with the original: each ended a millisecond earlier, and was put one place before.
# Ids rise with keys, as those of real jobs do.
CHANGED = {
    "key": "old.key - n",
    "finished": "old.finished - CAST(n AS BIGINT) * 1000",
    "body": "CASE WHEN n <= {with_payload} THEN old.body END",
    "size": "CASE WHEN n <= {with_payload} THEN old.size ELSE 0 END",
}


class FileTables:
    """The tables in a SQLite file. Deleted rows leave free pages in it, which later rows fill."""

    id = f"printf('%08x-0000-7000-8000-%012x', ({YOUNGEST} - n) / 65536, {YOUNGEST} - n)"
    series = "(WITH RECURSIVE s(n) AS (SELECT {last} UNION ALL SELECT n - 1 FROM s WHERE n > {first}) SELECT n FROM s)"

    def __init__(self, url: str) -> None:
        self._connection = sqlite3.connect(urlsplit(url).path[1:], isolation_level=None)
        self._connection.execute("PRAGMA synchronous = OFF")

    def close(self) -> None:
        self._connection.close()

    def execute(self, statement: str) -> list[Any]:
        return self._connection.execute(statement).fetchall()

    def columns(self, table: str) -> list[str]:
        return [name for _, name, *_ in self.execute(f"PRAGMA table_info({table})")]

    def bytes(self) -> int:
        ((pages,),), ((size,),) = self.execute("PRAGMA page_count"), self.execute("PRAGMA page_size")
        return int(pages * size)

    def settle_down(self) -> Numbers:
        """Finish what SQLite would do later, and tell what it left."""
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((free,),), ((size,),) = self.execute("PRAGMA freelist_count"), self.execute("PRAGMA page_size")
        return {"free MB": free * size / MEGABYTE}


class ServerTables:
    """The tables on PostgreSQL. Deleted rows are dead until a vacuum; the server vacuums by itself, too."""

    id = (
        f"lpad(to_hex(({YOUNGEST} - n) / 65536), 8, '0') || '-0000-7000-8000-' || lpad(to_hex({YOUNGEST} - n), 12, '0')"
    )
    series = "generate_series({last}, {first}, -1) AS s(n)"

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SET synchronous_commit = off")

    def close(self) -> None:
        self._connection.close()

    def execute(self, statement: str) -> list[Any]:
        cursor = self._connection.execute(statement)
        return cursor.fetchall() if cursor.description else []

    def columns(self, table: str) -> list[str]:
        found = self.execute(f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'")
        return [name for (name,) in found]

    def bytes(self) -> int:
        return sum(self.execute(f"SELECT pg_total_relation_size('{table}')")[0][0] for table in NAMES)

    def settle_down(self) -> Numbers:
        """Finish what the server would do later, and tell what it found."""
        time.sleep(1.5)  # sessions report what they did once a second
        ((dead, vacuums),) = self.execute("SELECT sum(n_dead_tup), sum(autovacuum_count) FROM pg_stat_user_tables")
        begun = time.perf_counter()
        self.execute("VACUUM (ANALYZE)")
        seconds = time.perf_counter() - begun
        self.execute("CHECKPOINT")
        return {"dead rows": float(dead), "automatic vacuums": float(vacuums), "vacuum s": seconds}


NAMES = ("tenure_job", "tenure_outcome")
Tables = FileTables | ServerTables
_TABLES_OF = {"sqlite": FileTables, "postgresql": ServerTables}


def growth(jobs: int) -> Numbers:
    """The drain with so many ended jobs in the tables beside that with none, their bytes, and what deleting leaves."""
    drained = min(jobs, DRAINED)
    with place() as (url, folder), closing(_TABLES_OF[urlsplit(url).scheme](url)) as tables:
        numbers = {**_filled(tables, url, folder, jobs), **_told("filled", tables.settle_down())}
        drains = interleaved({"none": lambda: _on_empty(drained), "full": lambda: _on_full(url, folder, drained)})
        numbers |= {**drains, "ratio": drains["full jobs/s"] / drains["none jobs/s"]}
        numbers |= _told("after the drains", tables.settle_down())
        numbers |= {"trim µs a job": _trimmed(url, folder, max(drained, jobs // 10))}
        numbers |= _told("after trimming", tables.settle_down())
        before = tables.bytes()
        _on_full(url, folder, drained)
        return {**numbers, "grown by a drain after trimming, MB": (tables.bytes() - before) / MEGABYTE}


def _on_empty(jobs: int) -> Numbers:
    with bench(jobs) as it:
        return drain_of(it, jobs)


def _on_full(url: str, folder: Path, jobs: int) -> Numbers:
    with opened(url, folder, jobs) as it:
        return drain_of(it, jobs)


def _filled(tables: Tables, url: str, folder: Path, jobs: int) -> Numbers:
    """Copies of a job that ran; first those whose payload is erased, for they are the oldest."""
    with opened(url, folder, 1) as it:
        it.enqueue(range(1))
        with it.worker("--burst") as process:
            process.wait()
    with_payload, empty, begun = min(WITH_PAYLOAD, jobs // 2), tables.bytes(), time.perf_counter()
    _copy(tables, range(with_payload, jobs), with_payload)
    erased = tables.bytes()
    _copy(tables, range(with_payload), with_payload)
    full = tables.bytes()
    return {
        "ended jobs": float(jobs),
        "bytes an ended job, payload erased": (erased - empty) / (jobs - with_payload),
        "bytes an ended job": (full - erased) / with_payload,
        "fill s": time.perf_counter() - begun,
    }


def _copy(tables: Tables, numbers: range, with_payload: int) -> None:
    """The oldest first: keys rise as they do when jobs are put."""
    ((key,),) = tables.execute("SELECT max(key) FROM tenure_outcome")
    for last in range(numbers.stop, numbers.start, -CHUNK):
        series = tables.series.format(last=last, first=max(numbers.start, last - CHUNK) + 1)
        for table in NAMES:
            columns = tables.columns(table)
            changed = {**CHANGED, "id": tables.id}
            values = [changed.get(name, f"old.{name}").format(with_payload=with_payload) for name in columns]
            tables.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
                f" FROM {series}, {table} AS old WHERE old.key = {key}"
            )


def _trimmed(url: str, folder: Path, count: int) -> float:
    """Microseconds to delete the oldest ended jobs, in the chunks of the janitor."""
    with opened(url, folder, 1) as it:
        jobs, now, begun, deleted = it.app.backend.jobs, SystemClock().now(), time.perf_counter(), 0
        while deleted < count and (found := jobs.trim("done", now, TRIM_CHUNK)):
            deleted += found
        return (time.perf_counter() - begun) / max(1, deleted) * 1e6


def _told(when: str, numbers: Numbers) -> Numbers:
    return {f"{name}, {when}": value for name, value in numbers.items()}
