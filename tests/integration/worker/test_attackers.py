"""What an attacker can do who writes the database, reads the disk, or holds a key with a scope.

docs/explanation/security.md states each of these; what the attacker cannot do is tested beside the code that prevents
it. The database is a SQLite file, which the attacker opens with nothing but SQLite.
"""

import sqlite3
from contextlib import closing

import pytest

from tenure import Job, Tenure
from tenure.backends.messages import Message
from tenure.clock import to_datetime
from tenure.guards.states import Done, claim_key, pack
from tenure.testing import run_due

SCOPED = "web:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
OURS = "ours:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA"


def app_on(tmp_path, clock, **settings):
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db", clock=clock, **settings)
    app.ran = []

    @app.job
    def greet(name: str) -> str:
        app.ran.append(name)
        return f"Hello, {name}!"

    return app


@pytest.fixture
def app(tmp_path, clock):
    with app_on(tmp_path, clock) as app:
        yield app


@pytest.fixture
def database(app, tmp_path):
    """The database, as the attacker sees it."""
    assert app.backend.file is not None
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
        yield connection


def test_a_writer_of_the_database_can_make_a_job_never_run_and_delete_jobs_and_dead_letters(app, database):
    app.define("greet", {"name": "Ada"}).dispatch()
    app.backend.put([Message(id="x", queue="default", body=b"{}", handler="greet")])
    run_due(app)
    app.define("greet", {"name": "Grace"}).dispatch()

    for table in ("tenure_ready", "tenure_job", "tenure_outcome", "tenure_dead"):
        database.execute(f"DELETE FROM {table}")
    run_due(app)

    assert app.ran == ["Ada"]
    assert not any(any(states.values()) for states in app.backend.queues.counts().values())


def test_a_writer_of_the_database_can_change_when_a_job_runs(app, database, clock):
    app.define("greet", {"name": "tomorrow"}).delay("1d").dispatch()
    app.define("greet", {"name": "soon"}).delay("1m").dispatch()

    for day in ("due - 86400000000", "due + 86400000000"):
        database.execute(f"UPDATE tenure_delayed SET due = {day} WHERE due = (SELECT max(due) FROM tenure_delayed)")
    run_due(app)
    clock.advance(60)
    run_due(app)

    assert app.ran == ["tomorrow"]


def test_a_writer_of_the_database_can_make_a_job_run_again_by_deleting_its_history(app, database):
    id = app.define("greet", {"name": "Ada"}).dispatch()
    body = app.backend.jobs.find(id).body
    run_due(app)

    database.execute("DELETE FROM tenure_job")
    app.backend.put([Message(id=id, queue="default", body=body, handler="greet")])
    run_due(app)

    assert app.ran == ["Ada", "Ada"]


def test_a_message_that_has_expired_does_not_run_though_its_history_was_deleted(app, database, clock):
    soon = to_datetime(clock.now() + 60_000_000)
    id = app.enqueue(Job(handler="greet", payload={"name": "Ada"}, expires_at=soon))
    body = app.backend.jobs.find(id).body
    run_due(app)
    clock.advance(61)

    database.execute("DELETE FROM tenure_job")
    app.backend.put([Message(id=id, queue="default", body=body, handler="greet")])
    run_due(app)

    assert app.ran == ["Ada"]


def test_a_writer_of_the_database_can_forge_the_result_of_a_job(app, database):
    id = app.define("greet", {"name": "Ada"}).dispatch()
    run_due(app)
    assert app.result(id) == "Hello, Ada!"

    database.execute("""UPDATE tenure_outcome SET output = 'forged'""")

    assert app.result(id) == "forged"


def test_a_writer_of_the_database_can_change_guards_so_that_a_job_is_skipped(app, database):
    app.define("greet", {"name": "Ada"}).idempotency_key("order-7").dispatch()

    database.execute(
        "INSERT INTO tenure_guard (key, state, expires, wake_at, waiting) VALUES (?, ?, ?, 0, 0)",
        (claim_key("order-7"), pack(Done("another")).decode(), app.clock.now() * 2),
    )
    run_due(app)

    assert app.ran == []


def test_a_writer_of_the_database_can_pause_schedules(app, database, clock):
    app.schedule(app.define("greet", {"name": "tick"}).build()).every_minute().named("greeting")
    assert len(app.cron.run()) == 1

    database.execute("INSERT OR REPLACE INTO tenure_schedule (name, last, paused) VALUES ('', 0, 1)")
    clock.advance(60)
    app.cron.run()

    assert app.backend.queues.counts()["default"]["ready"] == 1


def test_a_writer_of_the_database_can_change_the_counters_of_a_job_and_nothing_that_it_does(app, database):
    id = app.define("greet", {"name": "Ada"}).max_retries(3).dispatch()

    database.execute("UPDATE tenure_ready SET attempts = 3")
    database.execute("UPDATE tenure_job SET handler = 'other', name = 'other'")
    run_due(app)

    assert app.ran == ["Ada"]
    assert app.backend.jobs.find(id).attempts == 3


def test_a_reader_of_the_database_can_read_payloads_and_results_and_no_key(app, database, tmp_path):
    app.define("greet", {"name": "a private name"}).dispatch()
    (stored,) = database.execute("SELECT body FROM tenure_job").fetchone()
    run_due(app)
    (output,) = database.execute("SELECT output FROM tenure_outcome").fetchone()

    secret = (tmp_path / "jobs.db.key").read_text().strip().partition(":")[2]
    assert b"a private name" in bytes(stored)
    assert "a private name" in output
    assert secret.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("jobs.db*[!y]"))


def test_a_reader_of_the_key_file_can_sign_every_message(app, tmp_path, clock):
    assert app.backend.file is not None
    stolen = (tmp_path / "jobs.db.key").read_text().strip()

    with app_on(tmp_path, clock, keys=[stolen]) as attacker:
        attacker.define("greet", {"name": "forged"}).dispatch()
    run_due(app)

    assert app.ran == ["forged"]


def test_a_holder_of_a_scoped_key_can_run_what_its_scope_allows_with_any_payload_and_options(tmp_path, clock):
    job = Job(handler="greet", payload={"name": "any"}, priority=9, max_retries=1000, timeout=86_400.0)
    with app_on(tmp_path, clock, keys=[SCOPED]) as attacker:
        for _ in range(100):
            attacker.enqueue(job)
    with app_on(tmp_path, clock, keys=[OURS, SCOPED], scopes={"web": {"handlers": ["greet"]}}) as worker:
        run_due(worker)

        assert worker.ran == ["any"] * 100
