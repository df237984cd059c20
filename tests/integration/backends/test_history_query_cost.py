"""With a long history, each query reads no more rows than it shows, on SQLite and PostgreSQL."""

import re
import sqlite3

import pytest

from tenure.backends.sql import jobs, workers
from tenure.backends.sql.postgresql.connection import translated
from tenure.backends.sql.sqlite.database import translated as in_sqlite
from tenure.backends.url import open_backend
from tenure.clock import SystemClock

GIVEN = {"queue": "mail", "state": "done", "first": 0, "second": 0, "limit": 50, "since": 0, "until": 1, "after": ""}
QUEUES = jobs.NEXT_QUEUE.format(table="outcome", of_state="state = :state AND ")
ASKED = {
    **{f"page of {state}": text for state, text in jobs.PAGE_LIVE.items() if state != "parked"},
    "page of done": jobs.PAGE_ENDED,
    "page of dead": jobs.PAGE_DEAD,
    "queues of done": QUEUES,
    "statistics": workers.TALLIES,
    "loose tallies": workers.UNFOLDED.replace("FOR UPDATE", ""),
}


@pytest.fixture
def sqlite(tmp_path):
    open_backend(f"sqlite:///{tmp_path}/jobs.db", SystemClock()).close()
    connection = sqlite3.connect(tmp_path / "jobs.db")
    yield connection
    connection.close()


@pytest.mark.parametrize("asked", ASKED)
def test_sqlite_searches_an_index_and_sorts_nothing(sqlite, asked):
    plan = sqlite.execute(f"EXPLAIN QUERY PLAN {in_sqlite(ASKED[asked])}", {**GIVEN, "before": 1}).fetchall()
    steps = [step[-1] for step in plan]
    assert all(step.startswith("SEARCH") for step in steps), steps


def test_health_without_ended_jobs_does_not_touch_the_history(sqlite):
    plan = sqlite.execute(f"EXPLAIN QUERY PLAN {jobs.COUNTS_LIVE}").fetchall()
    assert not [step for step in plan if "tenure_outcome" in step[-1]]


@pytest.mark.slow
def test_postgresql_reads_only_the_rows_it_shows_of_a_long_history(postgres_place):
    import psycopg

    url, empty = postgres_place
    empty()
    open_backend(url, SystemClock()).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tenure_job (key, id, queue, rank, handler, enqueued, due) "
            "SELECT n, 'id-' || n, 'mail', -5, 'greet', n, n FROM generate_series(1, 200000) AS n"
        )
        connection.execute(
            "INSERT INTO tenure_outcome (key, queue, state, attempts, crashes, fence, finished, size) "
            "SELECT n, 'mail', 'done', 0, 0, 1, n, 300 FROM generate_series(1, 200000) AS n"
        )
        for text in (jobs.PAGE_ENDED, QUEUES):
            given = {**GIVEN, "first": 1 << 62, "second": 0}
            rows = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {translated(text)}", given).fetchone()[0]
            assert most_rows(rows[0]["Plan"]) <= 60


def most_rows(plan):
    """The most rows that any step of a plan took."""
    here = plan["Actual Rows"] * plan["Actual Loops"] + plan.get("Rows Removed by Filter", 0)
    return max([here, *(most_rows(part) for part in plan.get("Plans", ()))])


@pytest.mark.parametrize("asked", [jobs.FIRST_READY, jobs.OLDEST_OVERDUE], ids=["ready", "overdue"])
def test_the_age_of_a_queue_is_found_without_reading_it(sqlite, asked):
    plan = sqlite.execute(f"EXPLAIN QUERY PLAN {in_sqlite(asked)}", {**GIVEN, "now": 1}).fetchall()
    tables = [step[-1] for step in plan if re.match(r"(SCAN|SEARCH) (r|j|tenure_\w+)\b", step[-1])]
    assert tables
    assert all(step.startswith("SEARCH") for step in tables), tables
