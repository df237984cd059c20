"""A SQLite file: its settings, its log, and the messages when it cannot be used."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.sql.backend import SqlBackend
from tenure.backends.sql.sqlite.database import Database
from tenure.backends.sql.sqlite.dialect import COMPOUNDS, SqliteDialect
from tenure.backends.url import open_backend
from tenure.errors import BackendUnavailable, SchemaError, UnknownBackend


@pytest.fixture
def connections(monkeypatch):
    """Every connection that is opened during the test."""
    opened = []
    connect = sqlite3.connect

    def watch(*args, **kwargs):
        opened.append(connect(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", watch)
    return opened


def pragma(connection, name):
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(("options", "synchronous"), [("", 2), ("?synchronous=normal", 1), ("?synchronous=extra", 3)])
def test_the_log_is_written_ahead_and_durable_unless_asked_otherwise(
    options, synchronous, connections, tmp_path, clock
):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db{options}", clock)):
        writing, reading = connections
        assert pragma(writing, "journal_mode") == "wal"
        assert pragma(writing, "synchronous") == synchronous
        assert pragma(writing, "wal_autocheckpoint") == 0
        assert pragma(reading, "query_only") == 1


def test_the_journal_mode_of_a_file_stays_if_asked(connections, tmp_path, clock):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db?journal=keep", clock)):
        assert pragma(connections[0], "journal_mode") == "delete"


@pytest.fixture
def permissive():
    """A umask that leaves every right to every user."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes_in(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_the_files_of_a_new_database_are_for_their_owner_alone(permissive, tmp_path, clock, message):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)) as backend:
        backend.put([message(1)])

        assert modes_in(tmp_path) == dict.fromkeys(
            ["jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-gate", "jobs.db-slot"], 0o600
        )


def test_a_database_at_the_end_of_a_link_is_for_its_owner_alone_too(permissive, tmp_path, clock):
    (tmp_path / "link.db").symlink_to("real.db")

    with closing(open_backend(f"sqlite:///{tmp_path}/link.db", clock)):
        assert modes_in(tmp_path)["real.db"] == 0o600


def test_a_database_that_exists_keeps_its_mode(permissive, tmp_path, clock, message):
    url = f"sqlite:///{tmp_path}/jobs.db"
    open_backend(url, clock).close()
    (tmp_path / "jobs.db").chmod(0o660)

    with closing(open_backend(url, clock)) as backend:
        backend.put([message(1)])
        found = modes_in(tmp_path)
        assert (found["jobs.db"], found["jobs.db-wal"], found["jobs.db-shm"]) == (0o660, 0o660, 0o660)


def test_an_unknown_option_is_refused(tmp_path, clock):
    with pytest.raises(UnknownBackend, match="synchronous"):
        open_backend(f"sqlite:///{tmp_path}/jobs.db?synchronous=off", clock)


def test_the_log_stops_growing_when_jobs_are_only_produced(tmp_path, clock, message):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", clock)) as backend:
        produce(backend, message, range(0, 200))
        plateau = (tmp_path / "jobs.db-wal").stat().st_size
        produce(backend, message, range(200, 400))
        assert (tmp_path / "jobs.db-wal").stat().st_size <= plateau
        assert plateau < 64 * 1024 * 1024


def test_the_log_stays_small_when_many_short_lived_producers_write_beside_a_reader(tmp_path, clock, message):
    url = f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
    with closing(open_backend(url, clock)):
        for number in range(0, 100, 2):
            with closing(open_backend(url, clock)) as producer:
                produce(producer, message, range(number, number + 2))
        assert (tmp_path / "jobs.db-wal").stat().st_size < 16 * 1024 * 1024


def produce(backend, message, puts):
    """One put for each number, about 200 kB each."""
    for number in puts:
        backend.put([message(number * 100 + each, body=b"x" * 4000) for each in range(50)])


def test_closing_the_last_connection_leaves_one_complete_file(tmp_path, clock, message):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)) as backend:
        backend.put([message(1)])
    assert not (tmp_path / "jobs.db-wal").exists()
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)) as again:
        assert [lease.id for lease in again.lease(["mail"], limit=9, seconds=60)] == [message(1).id]


def test_a_closed_backend_opens_again_when_it_is_used_again(tmp_path, clock, message):
    backend = open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)
    backend.put([message(1)])
    backend.close()
    backend.close()
    assert len(backend.lease(["mail"], limit=9, seconds=60)) == 1
    backend.close()


def test_a_full_disk_refuses_the_put_keeps_the_rest_and_recovers(connections, tmp_path, clock, message):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)) as backend:
        backend.put([message(1)])
        connection = connections[0]
        pages = pragma(connection, "page_count")
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(BackendUnavailable, match="full"):
            backend.put([message(2), message(3, body=b"x" * 100_000)])
        connection.execute("PRAGMA max_page_count = 1000000")
        assert backend.put([message(4)]) == [message(4).id]
        assert [lease.id for lease in backend.lease(["mail"], limit=9, seconds=60)] == [message(1).id, message(4).id]


def test_a_schema_of_a_newer_release_is_refused(tmp_path, clock):
    open_backend(f"sqlite:///{tmp_path}/jobs.db", clock).close()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("UPDATE tenure_schema SET version = 99")
    with pytest.raises(SchemaError, match=r"version 99.*upgrade"):
        open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)


def test_opening_an_up_to_date_file_takes_no_step(tmp_path, clock):
    open_backend(f"sqlite:///{tmp_path}/jobs.db", clock).close()
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)) as backend:
        stored, needed = backend.schema.version()
        assert stored == needed
        assert backend.schema.migrate() == []


def test_the_tables_of_a_development_version_are_refused_and_left_alone(tmp_path, clock):
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.executescript(
            "CREATE TABLE tenure_schema (version INTEGER NOT NULL); INSERT INTO tenure_schema VALUES (6)"
        )
        connection.executescript("CREATE TABLE tenure_history (id TEXT)")
    with pytest.raises(SchemaError, match="let the workers of that version finish its jobs"):
        open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]
    assert tables == ["tenure_history", "tenure_schema"]


def test_tables_that_another_process_creates_while_the_file_is_opened_are_found(tmp_path, clock, message, monkeypatch):
    url, prepare = f"sqlite:///{tmp_path}/jobs.db", Database._prepare_connection

    def prepare_late(database):
        prepare(database)
        monkeypatch.undo()
        open_backend(url, clock).close()

    monkeypatch.setattr(Database, "_prepare_connection", prepare_late)
    with closing(open_backend(url, clock)) as backend:
        assert backend.put([message(1)]) == [message(1).id]


def test_tables_that_another_process_creates_later_are_found(tmp_path, clock, message):
    with closing(SqlBackend(SqliteDialect(Database(tmp_path / "jobs.db", COMPOUNDS), clock))) as backend:
        with pytest.raises(BackendUnavailable, match="no such table"):
            backend.put([message(1)])
        open_backend(f"sqlite:///{tmp_path}/jobs.db", clock).close()
        assert backend.put([message(1)]) == [message(1).id]


def test_a_missing_folder_is_named(tmp_path, clock):
    with pytest.raises(BackendUnavailable, match=str(tmp_path / "nowhere")):
        open_backend(f"sqlite:///{tmp_path}/nowhere/jobs.db", clock)


def test_a_folder_in_place_of_the_file_is_named(tmp_path, clock):
    (tmp_path / "jobs.db").mkdir()
    with pytest.raises(BackendUnavailable, match=str(tmp_path / "jobs.db")):
        open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path, clock):
    (tmp_path / "notes.txt").write_bytes(b"not a database " * 1000)
    with pytest.raises(BackendUnavailable, match=str(tmp_path / "notes.txt")):
        open_backend(f"sqlite:///{tmp_path}/notes.txt", clock)
    assert (tmp_path / "notes.txt").read_bytes() == b"not a database " * 1000


def test_an_opening_that_fails_leaves_nothing_open_and_no_file_behind(tmp_path, clock):
    (tmp_path / "jobs.db").write_bytes(b"no database" * 100)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        with pytest.raises(BackendUnavailable):
            open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.db"]


def test_a_file_that_may_only_be_read_is_named(tmp_path, clock, start, finish):
    open_backend(f"sqlite:///{tmp_path}/jobs.db", clock).close()
    for path in (tmp_path / "jobs.db", tmp_path):
        path.chmod(path.stat().st_mode & ~0o222)
    (said,) = finish(start(OPEN_WITHOUT_PRIVILEGES, tmp_path))
    assert "BackendUnavailable" in said
    assert str(tmp_path / "jobs.db") in said


# The superuser may write to every file, so it becomes somebody else first, and enters the folder before that.
OPEN_WITHOUT_PRIVILEGES = """
import os, sys
from pathlib import Path
from tenure.backends.sql.sqlite import url
from tenure.backends.sql import migrations
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
folder = Path(sys.argv[1])
for parent in (folder, *folder.parents):
    if os.geteuid() == 0 and not parent.stat().st_mode & 0o001:
        parent.chmod(parent.stat().st_mode | 0o011)
if os.geteuid() == 0:
    os.setuid(65534)
try:
    open_backend(f"sqlite:///{folder}/jobs.db", SystemClock()).put([])
except Exception as error:
    print(type(error).__name__, error)
"""


def test_the_key_and_the_lock_files_are_for_their_owner_alone(tmp_path, clock):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", clock)):
        for name in ("jobs.db-gate", "jobs.db-slot"):
            assert (tmp_path / name).stat().st_mode & 0o077 == 0
