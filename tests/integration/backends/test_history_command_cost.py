"""With a long history, commands read no more rows than they show, or a bounded sample; the databases count the rows."""

import sqlite3
from functools import partial
from secrets import token_hex

import psycopg
import pymysql
import pytest
from msgspec import structs

from tenure import Tenure
from tenure.app.dashboard.health import read_health
from tenure.backends import job_filter
from tenure.backends.job_filter import JobFilter
from tenure.backends.messages import Message
from tenure.backends.records import AuditRecord, encode
from tenure.backends.sql.mysql.connection import MysqlSession
from tenure.backends.sql.postgresql import connection as postgresql
from tenure.events import Run, Settlement, Status
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, Tally
from tenure.wire.signing import new_key
from tests.support.servers.fixtures import _login

SHOWN, SAMPLE, PAGE = 50, 1000, 100
COLUMNS = {
    "tenure_job": "{key}, id, queue, {rank}, handler, name, enqueued, due",
    "tenure_outcome": "{key}, queue, state, attempts, crashes, fence, finished, size, owner, seconds, output",
    "tenure_dead": "{key}, id, queue, attempts, crashes, fence, died, owner, reason",
    "tenure_tag": "tag, enqueued, {key}",
    "tenure_audit": "id, at, record",
}
SEARCHES = {
    "without a filter": (JobFilter(), SHOWN),
    "by state": (JobFilter(states=("done",)), SHOWN),
    "by queue": (JobFilter(queue="b"), SHOWN),
    "by handler": (JobFilter(handler="often"), SHOWN),
    "by a handler that is rare": (JobFilter(handler="nobody"), SAMPLE),
    "by name": (JobFilter(name="n1"), SHOWN),
    "by a name that is rare": (JobFilter(name="nobody"), SAMPLE),
    "by age, newer": (JobFilter(since=9_999_991), 10),
    "by age, older": (JobFilter(before=9_999_990), SHOWN),
    "by age, behind more than are looked at": (JobFilter(before=9_998_000), SHOWN),
    "by text": (JobFilter(text="result"), SHOWN),
    "by a text that is rare": (JobFilter(text="no such text"), SAMPLE),
}


def rows(first, last):
    """The rows of ended jobs by table; the newest ended 10 seconds past the epoch."""
    return {
        "tenure_job": [
            (n + 1, f"{token_hex(4)}-{n}", "ab"[n % 2], -5, "often", f"n{n % 3}", n, n) for n in range(first, last)
        ],
        "tenure_outcome": [
            (n + 1, "ab"[n % 2], "done", 0, 0, 1, 10_000_000 - n, 300, "me", 1.0, "result") for n in range(first, last)
        ],
    }


def insert(table, mark, quote=""):
    columns = COLUMNS[table].format(key=f"{quote}key{quote}", rank=f"{quote}rank{quote}")
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join([mark] * len(columns.split(',')))})"


class Sqlite:
    """Counts the steps of SQLite's machine, a hundred at a time: a row that is read takes some thirty."""

    STEPS_A_ROW = 1.5

    def __init__(self, url, monkeypatch):
        self.url, self._hundreds = url, 0
        connect = sqlite3.connect
        self._connect = connect
        monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: self._watched(connect(*args, **kwargs)))

    def _watched(self, connection):
        connection.set_progress_handler(self._count, 100)
        return connection

    def _count(self):
        self._hundreds += 1

    def fill(self, ended):
        connection = self._connect(self.url.removeprefix("sqlite:///"))
        with connection:
            for table, lines in ended.items():
                connection.executemany(insert(table, "?"), lines)
        connection.close()

    def read_by(self, work):
        before = self._hundreds
        answer = work()
        return (self._hundreds - before) * self.STEPS_A_ROW, answer


class Postgresql:
    """Has every statement explained with what it really read, before it is run."""

    def __init__(self, url, monkeypatch):
        self.url, self._read = url, 0
        real = postgresql.rows_on

        def explained(connection, statement, parameters):
            if statement.lstrip().startswith("SELECT") and "tenure_" in statement:
                plan = connection.execute(
                    f"EXPLAIN (ANALYZE, FORMAT JSON) {postgresql.translated(statement)}", parameters
                ).fetchone()[0]
                self._read += scanned(plan[0]["Plan"])
            return real(connection, statement, parameters)

        monkeypatch.setattr(postgresql, "rows_on", explained)

    def fill(self, ended):
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            for table, lines in ended.items():
                with cursor.copy(f"COPY {table} ({COLUMNS[table].format(key='key', rank='rank')}) FROM STDIN") as copy:
                    for line in lines:
                        copy.write_row(line)
            cursor.execute("SELECT setval(pg_get_serial_sequence('tenure_job', 'key'), max(key)) FROM tenure_job")

    def read_by(self, work):
        before = self._read
        answer = work()
        return self._read - before, answer


def scanned(plan):
    """The rows that the leaves of a plan took from tables and indexes, those they threw away included."""
    below = sum(scanned(part) for part in plan.get("Plans", ()))
    if "Relation Name" not in plan:
        return below
    thrown = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
    return below + (plan["Actual Rows"] + thrown) * plan["Actual Loops"]


class Mariadb:
    """Asks the session how many rows its statements took from tables and indexes."""

    def __init__(self, url, monkeypatch):
        self.url, self._read = url, 0
        real = MysqlSession.neutral

        def counted(session, statement, parameters):
            session._cursor.execute("FLUSH STATUS")
            answer = real(session, statement, parameters)
            session._cursor.execute("SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler_read%'")
            self._read += sum(int(value) for name, value in session._cursor.fetchall() if "tmp" not in name.lower())
            return answer

        monkeypatch.setattr(MysqlSession, "neutral", counted)

    def fill(self, ended):
        with pymysql.connect(**_login(self.url), autocommit=True) as connection, connection.cursor() as cursor:
            for table, lines in ended.items():
                cursor.executemany(insert(table, "%s", "`"), lines)

    def read_by(self, work):
        before = self._read
        answer = work()
        return self._read - before, answer


def vacuum(url):
    """Give the space of deleted rows back: else statistics say that large tables are empty, until the next analysis."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM")


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request, tmp_path, monkeypatch):
    if request.param == "sqlite":
        return Sqlite(f"sqlite:///{tmp_path}/jobs.db", monkeypatch)
    url, empty = request.getfixturevalue(f"{request.param}_place")
    Tenure(url, keys=[new_key().dump()]).backend.close()
    empty()
    if request.param == "postgres":
        vacuum(url)
    return {"postgres": Postgresql, "mariadb": Mariadb}[request.param](url, monkeypatch)


@pytest.fixture
def app(database, monkeypatch):
    monkeypatch.setattr(job_filter, "_MAX_READ", SAMPLE)
    with Tenure(database.url, keys=[new_key().dump()]) as app:
        assert app.backend
        database.fill(rows(0, 12_000))  # with much less a database rather reads all there is
        yield app


def searches(app):
    return {
        name: partial(job_filter.search_jobs, app.backend.jobs, sought, SHOWN) for name, (sought, _) in SEARCHES.items()
    }


def test_a_search_reads_what_it_shows_or_a_bounded_sample(app, database):
    seen = {name: database.read_by(search) for name, search in searches(app).items()}
    assert {name: len(jobs) for name, (_, (jobs, _)) in seen.items()} == {
        name: 0 if shown == SAMPLE else shown for name, (_, shown) in SEARCHES.items()
    }
    most = {name: 3 * (shown + 2 * PAGE) for name, (_, shown) in SEARCHES.items()}
    assert {name: read for name, (read, _) in seen.items() if read > most[name]} == {}


def test_the_cost_of_commands_does_not_grow_with_the_history(app, database):
    waiting = Message(id="first", queue="a", body=b"{}", handler="often")
    app.backend.put([waiting])
    asked = {
        "health": partial(read_health, app, "24h", False),
        "statistics": partial(app.statistics, "24h"),
        **searches(app),
    }
    for work in asked.values():
        work()  # what is asked but once, such as the version of a server, is not counted
    few = {name: database.read_by(work)[0] for name, work in asked.items()}
    database.fill(rows(13_000, 31_000))
    app.backend.put([structs.replace(waiting, id="last", priority=8)])
    many = {name: database.read_by(work)[0] for name, work in asked.items()}
    assert many == pytest.approx(few, rel=0.2, abs=30)


def test_finding_one_job_reads_only_its_rows(app, database):
    ((newest,), _) = app.backend.jobs.page("done", "b", limit=1, before=9_988_010)  # the last one of its index
    read, found = database.read_by(partial(app.backend.jobs.find, newest.id))
    assert found.state == "done"
    assert read <= 60
    assert database.read_by(partial(app.backend.control.cancel, [newest.id]))[0] <= 200


def test_finding_one_job_reads_only_its_rows_after_all_earlier_jobs_were_deleted(postgres_place, monkeypatch):
    url, empty = postgres_place
    with Tenure(url, keys=[new_key().dump()]) as app:
        assert app.backend
        database = Postgresql(url, monkeypatch)
        empty()
        database.fill(rows(0, 31_000))
        empty()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")  # as autovacuum may: the server now expects no rows in large tables
        database.fill(rows(0, 12_000))
        ((newest,), _) = app.backend.jobs.page("done", "b", limit=1, before=9_988_010)
        read, found = database.read_by(partial(app.backend.jobs.find, newest.id))
        assert found.state == "done"
        assert read <= 60


def test_acting_on_one_waiting_job_reads_only_its_rows(app, database):
    message = Message(id="", queue="long", body=b"{}", handler="often")
    app.backend.put([structs.replace(message, id=f"waiting-{number:05d}") for number in range(5000)])
    control = app.backend.control
    read, found = database.read_by(partial(control.reschedule, ["waiting-02500", "waiting-04999"], delay=60))
    assert set(found.values()) == {"rescheduled"}
    assert read <= 200
    read, found = database.read_by(partial(control.cancel, ["waiting-02501", "waiting-04999"]))
    assert set(found.values()) == {"cancelled"}
    assert read <= 250
    for _ in range(10):
        app.backend.lease(["long"], limit=300, seconds=60)
    read, found = database.read_by(partial(app.backend.jobs.find, "waiting-02400"))
    assert found.state == "leased"
    assert read <= 100 + 300  # at most the members of its batch
    read, page = database.read_by(partial(app.backend.jobs.page, "ready", "long", limit=SHOWN))
    assert (len(page[0]), read <= 4 * SHOWN) == (SHOWN, True)


def test_dead_letters_are_listed_and_replayed_without_reading_others(app, database):
    letters, jobs = app.backend.dead_letters, app.backend.jobs
    ids = [f"dead-{n:05d}" for n in range(6000)]
    database.fill(
        {
            "tenure_job": [(20_000 + n, ids[n], "ab"[n % 2], -5, "often", None, n, n) for n in range(6000)],
            "tenure_dead": [(20_000 + n, ids[n], "ab"[n % 2], 1, 0, 1, n + 1, "me", "failed") for n in range(6000)],
        }
    )
    for page in (letters.page, partial(letters.page, queue="a")):
        read, found = database.read_by(partial(page, limit=SHOWN))
        assert len(found) == SHOWN
        assert read <= 5 * SHOWN
    read, (found, _) = database.read_by(partial(jobs.page, "dead", "a", limit=SHOWN))
    assert len(found) == SHOWN
    assert read <= 5 * SHOWN
    for act, chosen in (
        (letters.replay, ids[:SHOWN]),
        (letters.discard, ids[SHOWN : 2 * SHOWN]),
        (partial(letters.trim, 6000), SHOWN),
    ):
        read, changed = database.read_by(partial(act, chosen))
        assert changed == (chosen if isinstance(chosen, list) else SHOWN)
        assert read <= 20 * SHOWN


def test_jobs_with_a_tag_are_listed_without_reading_others(app, database):
    database.fill({"tenure_tag": [(f"tag {n % 100}", n, n + 1) for n in range(12_000)]})
    read, (found, cursor) = database.read_by(partial(app.backend.jobs.tagged, "tag 7", limit=SHOWN))
    assert [record.enqueued_at for record in found] == [11_907 - 100 * n for n in range(SHOWN)]
    assert read <= 6 * SHOWN
    read, (rest, _) = database.read_by(partial(app.backend.jobs.tagged, "tag 7", limit=2 * SHOWN, cursor=cursor))
    assert len(rest) == 120 - SHOWN
    assert read <= 12 * SHOWN
    assert database.read_by(partial(app.backend.jobs.tagged, "no such tag", limit=SHOWN))[0] <= 20


def test_waiting_and_running_jobs_with_a_tag_are_listed_without_reading_others(app, database):
    message = Message(id="", queue="long", body=b"{}", handler="often")
    tags = dict.fromkeys(range(0, 5000, 100), ("rare",))
    app.backend.put([structs.replace(message, id=f"job-{n:05d}", tags=tags.get(n, ())) for n in range(5000)])
    listed = partial(app.backend.jobs.tagged, "rare", limit=SHOWN)
    read, (found, _) = database.read_by(listed)
    assert [record.id for record in found] == [f"job-{n:05d}" for n in range(4900, -1, -100)]
    assert {record.state for record in found} == {"ready"}
    assert read <= 12 * SHOWN
    app.backend.lease(["long"], limit=300, seconds=60)
    read, (found, _) = database.read_by(listed)
    assert [record.state for record in found] == ["ready"] * 47 + ["leased"] * 3
    assert read <= 12 * SHOWN + 4 * 300  # the members of a batch are read together


def test_recent_jobs_are_listed_without_reading_others(app, database):
    recent = app.backend.recent
    read, (found, cursor) = database.read_by(partial(recent.page, limit=SHOWN))
    assert [record.enqueued_at for record in found] == [11_999 - n for n in range(SHOWN)]
    assert read <= 6 * SHOWN
    read, (found, _) = database.read_by(partial(recent.page, limit=SHOWN, cursor="6001"))
    assert [record.enqueued_at for record in found] == [5999 - n for n in range(SHOWN)]
    assert read <= 6 * SHOWN
    often = {"of a queue": {"queues": ["a"]}, "of a handler": {"handler": "often", "queues": ["a", "b"]}}
    for wanted in often.values():
        read, (found, cursor) = database.read_by(partial(recent.page, limit=SHOWN, **wanted))
        assert (len(found), cursor is None) == (SHOWN, False)
        assert read <= 10 * SHOWN


def test_recent_jobs_that_are_rare_are_searched_in_a_bounded_sample(app, database):
    for wanted in ({"handler": "nobody"}, {"queues": ["c"]}, {"queues": ["b"], "handler": "nobody"}):
        search = partial(app.backend.recent.page, limit=SHOWN, max_read=SAMPLE, **wanted)
        read, (found, cursor) = database.read_by(search)
        assert (found, cursor) == ([], str(12_000 - SAMPLE + 1))
        assert read <= 2 * SAMPLE + PAGE


def test_recent_jobs_that_wait_and_run_are_listed_without_reading_others(app, database):
    message = Message(id="", queue="long", body=b"{}", handler="often")
    app.backend.put([structs.replace(message, id=f"job-{n:05d}") for n in range(5000)])
    listed = partial(app.backend.recent.page, limit=SHOWN)
    read, (found, _) = database.read_by(listed)
    assert [(record.id, record.state) for record in found] == [(f"job-{n:05d}", "ready") for n in range(4999, 4949, -1)]
    assert read <= 12 * SHOWN
    for _ in range(17):
        app.backend.lease(["long"], limit=300, seconds=60)
    read, (found, _) = database.read_by(listed)
    assert {record.state for record in found} == {"leased"}
    assert read <= 12 * SHOWN + 4 * 300  # the members of a batch are read together


def test_jobs_are_found_by_the_start_of_their_id_without_reading_others(app, database):
    ((newest,), _) = app.backend.jobs.page("done", "b", limit=1)
    for prefix in (newest.id[:8], newest.id):
        read, found = database.read_by(partial(app.backend.jobs.with_prefix, prefix))
        assert newest.id in [record.id for record in found]
        assert read <= 60
    read, found = database.read_by(partial(app.backend.jobs.with_prefix, "", SHOWN))
    assert len(found) == SHOWN
    assert read <= 6 * SHOWN


def test_ends_are_counted_without_reading_more_than_the_limit(app, database):
    counted = partial(app.backend.queues.ended_since, "done", "b")
    for since, limit, count in ((0, SHOWN, SHOWN), (9_999_901, PAGE, SHOWN), (9_999_901, SHOWN - 1, SHOWN - 1)):
        read, found = database.read_by(partial(counted, since, limit))
        assert found == count
        assert read <= 2 * SHOWN + 20
    ids = [f"dead-{n:05d}" for n in range(6000)]
    database.fill(
        {"tenure_dead": [(20_000 + n, ids[n], "ab"[n % 2], 1, 0, 1, n + 1, "me", "failed") for n in range(6000)]}
    )
    for since, limit in ((0, SHOWN), (5901, PAGE)):
        read, found = database.read_by(partial(app.backend.queues.ended_since, "dead", "a", since, limit))
        assert found == SHOWN
        assert read <= 2 * SHOWN + 20


def test_trimming_reads_what_it_deletes(app, database):
    read, deleted = database.read_by(partial(app.backend.jobs.trim, "done", 10_000_000, SHOWN))
    assert deleted == SHOWN
    assert read <= 10 * SHOWN


def test_erasing_reads_what_it_erases(app, database):
    read, erased = database.read_by(partial(app.backend.payloads.erase, 10_000_000, SHOWN))
    assert erased.jobs == SHOWN
    assert read <= 10 * SHOWN


def test_audit_records_are_listed_and_deleted_without_reading_others(app, database):
    usual = AuditRecord(id="", at=0, actor="ada", action="jobs.cancel", target="all")
    records = [structs.replace(usual, id=f"{n:05d}", at=n) for n in range(12_000)]
    database.fill({"tenure_audit": [(each.id, each.at, encode(each).decode()) for each in records]})
    log = app.backend.audit
    for before, newest in ((None, 11_999), ("06000", 5999)):
        read, found = database.read_by(partial(log.page, limit=SHOWN, before=before))
        assert [record.at for record in found] == [newest - n for n in range(SHOWN)]
        assert read <= 3 * SHOWN
    assert database.read_by(partial(log.find, "06000"))[0] <= 30
    assert database.read_by(partial(log.save, records[6000]))[0] <= 30
    read, deleted = database.read_by(partial(log.trim, 6000, SHOWN))
    assert deleted == SHOWN
    assert read <= 5 * SHOWN


def test_statistics_read_the_slots_they_add_up_and_no_job(app, database):
    now = app.clock.now() // SLOT_MICROSECONDS * SLOT_MICROSECONDS
    counts = Counts()
    counts.add(Settlement("id", "a", Status.ACKED, 1, None, False, Run("often", 0, 1.0)))
    app.backend.stats.save([Tally(now - n * SLOT_MICROSECONDS, "a", "often", "", counts) for n in range(300)])
    read, summaries = database.read_by(partial(app.statistics, "1h"))
    assert [summary.done for summary in summaries] == [13]
    assert read <= 60
