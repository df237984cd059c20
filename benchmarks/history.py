"""How long commands take that look at a history of a million ended jobs, and a hundred thousand dead letters."""

import os
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from click.testing import CliRunner

from benchmarks.places import place
from tenure import Tenure
from tenure.backends.messages import Ack
from tenure.cli.main import cli
from tenure.clock import SystemClock
from tenure.events import Run, Settlement, Status
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, Tally
from tenure.wire.signing import new_key

ENDED, DEAD = 1_000_000, 100_000
_ROUNDS = 5
_QUEUES = 8
# The keys of ended jobs and dead letters are below those of other jobs.
_JOBS = """
INSERT INTO tenure_job (key, id, queue, rank, handler, name, enqueued, due, body)
SELECT {key}, '{word}-' || n, 'q' || (n % {queues}), -5, 'h' || (n % 20), 'name ' || (n % 1000), {now} - n * 1000,
       {now} - n * 1000, {body} FROM {series}
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
COMMANDS = {
    "health": ["health"],
    "health --all": ["health", "--all"],
    "jobs list": ["jobs", "list"],
    "jobs list --state done": ["jobs", "list", "--state", "done"],
    "jobs list --state dead": ["jobs", "list", "--state", "dead"],
    "jobs list --queue": ["jobs", "list", "--queue", "q3"],
    "jobs list --job": ["jobs", "list", "--job", "h7"],
    "jobs list --job, none such": ["jobs", "list", "--job", "nobody"],
    "jobs list --name": ["jobs", "list", "--name", "name 77"],
    "jobs list --newer-than 1s": ["jobs", "list", "--newer-than", "1s"],
    "jobs list --older-than 1s": ["jobs", "list", "--older-than", "1s"],
    "jobs list --text, none such": ["jobs", "list", "--text", "no such text"],
    "dead list": ["dead", "list"],
}


def history(jobs: int) -> dict[str, float]:  # noqa: ARG001 - every row has one signature
    """Milliseconds of each command, without the start of Python; the median of five."""
    with place() as (url, _):
        os.environ.update(TENURE_URL=url, TENURE_KEYS=new_key().dump())
        try:
            with Tenure() as app:
                begun = time.perf_counter()
                _FILL.get(urlsplit(url).scheme, _by_verbs)(app, url)
                _count_slots(app)
                numbers = {"fill s": time.perf_counter() - begun}
            numbers |= {name: _milliseconds(words) for name, words in COMMANDS.items()}
            with Tenure() as app:
                numbers["app.statistics"] = _median(lambda: app.statistics("24h"))
            return numbers
        finally:
            for name in ("TENURE_URL", "TENURE_KEYS"):
                del os.environ[name]


def _milliseconds(words: list[str]) -> float:
    def call() -> None:
        result = CliRunner().invoke(cli, [*words, "--json"])
        assert result.exit_code == 0, result.output

    call()  # what it imports is not what it costs
    return _median(call)


def _median(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        call()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def _by_sqlite(app: Tenure, url: str) -> None:
    import sqlite3

    assert app.backend
    series = "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT n FROM s)"
    connection = sqlite3.connect(urlsplit(url).path[1:])
    with connection:
        for statement in _statements(lambda count: series.format(count), "x''"):
            connection.execute(statement)
    connection.close()


def _by_postgresql(app: Tenure, url: str) -> None:
    import psycopg

    assert app.backend
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _statements(lambda count: f"generate_series(1, {count}) AS n", "''::bytea"):
            connection.execute(statement)


def _by_mysql(app: Tenure, url: str) -> None:
    import pymysql

    assert app.backend
    parts = urlsplit(url)
    login = {"host": parts.hostname, "port": parts.port or 3306, "user": parts.username, "database": parts.path[1:]}
    with pymysql.connect(**login, password=parts.password or "", autocommit=True) as connection:
        connection.cursor().execute("SET sql_mode = 'PIPES_AS_CONCAT'")
        for statement in _statements(lambda count: f"(SELECT seq AS n FROM seq_1_to_{count}) AS s", "''"):
            connection.cursor().execute(statement.replace("rank,", "`rank`,").replace("(key,", "(`key`,"))


def _statements(series: Callable[[int], str], body: str) -> list[str]:
    """The statements that fill the tables with ended jobs and dead letters."""
    given = {"queues": _QUEUES, "now": SystemClock().now()}
    ended = {**given, "series": series(ENDED), "key": "-n", "word": "job", "body": "NULL"}
    dead = {**given, "series": series(DEAD), "key": f"-n - {ENDED}", "word": "dead", "body": body}
    return [_JOBS.format(**ended), _OUTCOMES.format(**ended), _JOBS.format(**dead), _LETTERS.format(**dead)]


def _by_verbs(app: Tenure, url: str) -> None:  # noqa: ARG001 - as the others
    """Put, leased and acked, a thousand at a time."""
    noop = app.job(name="h7")(_noop)
    for _ in range(ENDED // 1000):
        app.enqueue_many(noop.using(queue=f"q{n % _QUEUES}", name=f"name {n}").build() for n in range(1000))
        queues = [f"q{n}" for n in range(_QUEUES)]
        while leases := app.backend.lease(queues, limit=1000, seconds=60):
            app.backend.ack([Ack(lease=lease, output="result") for lease in leases])


def _noop() -> None:
    """Does nothing."""


def _count_slots(app: Tenure) -> None:
    """A day of statistics, as a fleet that has run twenty handlers on eight queues leaves it."""
    if app.backend.stats is None:
        return
    counts = Counts()
    runs = [Run("h", 0, number / 50, wait=number / 100) for number in range(200)]
    counts.add(*[Settlement("id", "q", Status.ACKED, 1, None, False, run) for run in runs])
    now = SystemClock().now() // SLOT_MICROSECONDS * SLOT_MICROSECONDS
    for slot in range(now - 86_400_000_000, now + 1, SLOT_MICROSECONDS):
        app.backend.stats.save([Tally(slot, f"q{n % _QUEUES}", f"h{n}", "", counts) for n in range(20)])


_FILL: dict[str, Callable[[Tenure, str], None]] = {
    "sqlite": _by_sqlite,
    "postgresql": _by_postgresql,
    "mysql": _by_mysql,
    "mariadb": _by_mysql,
}
