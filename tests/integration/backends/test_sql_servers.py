"""A worker on a database server: it wakes for new jobs, reports server facts, opens every URL, and migrates."""

import gc
import subprocess
import sys
import threading
import time
import warnings
from urllib.parse import urlsplit

import psycopg
import pytest
from msgspec import structs

from tenure import Tenure
from tenure.backends.messages import Nack
from tenure.backends.sql import migrations
from tenure.backends.sql.postgresql import claims, connection, notifications, settlements
from tenure.backends.sql.postgresql.dialect import PUT, PUT_NEW, PUT_ONE
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.errors import BackendUnavailable, SchemaError, SettingsError, UnknownBackend
from tenure.wire.signing import new_key
from tests.support.waiting import WAIT_SECONDS

KEY = new_key().dump()
PLACES = ["postgres", "postgres?listen=off", "mariadb"]


@pytest.fixture(params=PLACES)
def url(request):
    kind, _, option = request.param.partition("?")
    found = request.getfixturevalue(f"{kind}_url")
    return f"{found}?{option}" if option else found


@pytest.mark.timing
def test_an_idle_worker_wakes_for_each_job(url, eventually):
    ran = []
    with Tenure(url, keys=[KEY]) as app:
        job = app.job(name="note")(lambda number: ran.append((number, time.monotonic())))
        worker = app.worker()
        thread = threading.Thread(target=worker.run)
        thread.start()
        for number in range(3):
            time.sleep(0.3)  # so that it is idle again
            called = time.monotonic()
            job.enqueue(number=number)
            eventually(lambda number=number: len(ran) > number)
            assert ran[-1][1] - called < 2
        worker.stop()
        thread.join()
        assert app.backend.queues.counts()["default"]["done"] == 3


def test_a_backlog_is_drained_and_nothing_runs_twice(url):
    ran = []
    with Tenure(url, keys=[KEY]) as app:
        job = app.job(name="note")(ran.append)
        app.enqueue_many(job.build(number) for number in range(2500))
        app.worker(burst=True).run()
        assert sorted(ran) == list(range(2500))


def test_health_tells_how_durable_the_server_is_and_how_workers_wake(url, monkeypatch):
    monkeypatch.setattr(notifications, "_TRIAL_TIMEOUT", WAIT_SECONDS)
    backend = open_backend(url, SystemClock())
    facts = {fact.about: fact.text for fact in backend.server.facts()}
    backend.close()
    told = url.startswith("postgres") and "listen=off" not in url
    assert facts.keys() == {"server", "durability", "wake-ups"}
    assert ("by LISTEN and NOTIFY" if told else "workers poll every 25 ms") in facts["wake-ups"]


def test_a_server_that_passes_no_notice_on_is_told(postgres_url, monkeypatch):
    monkeypatch.setattr(notifications, "NOTIFY", "SELECT %(notify)s::text[]")
    monkeypatch.setattr(notifications, "_TRIAL_TIMEOUT", 0.2)
    backend = open_backend(postgres_url, SystemClock())
    (told,) = [fact for fact in backend.server.facts() if fact.about == "wake-ups"]
    backend.close()
    assert (told.warning, told.text) == (True, "LISTEN receives no NOTIFY, so workers poll every 0.5 s")


def test_an_index_that_is_gone_is_named(mariadb_url):
    backend = open_backend(mariadb_url, SystemClock())
    assert backend.schema.missing_indexes() == []
    with backend._dialect.migration() as rows:
        rows("DROP INDEX tenure_dead_died ON tenure_dead", {})
    assert backend.schema.missing_indexes() == ["tenure_dead_died"]
    backend.close()


def test_the_tables_of_a_development_version_are_refused_and_left_alone(url):
    backend = open_backend(url, SystemClock())
    with backend._dialect.migration() as rows:
        rows("ALTER TABLE tenure_outcome RENAME TO tenure_history", {})
    backend.close()
    with pytest.raises(SchemaError, match="tables of a development version"):
        open_backend(url, SystemClock())


def test_a_server_without_a_key_is_refused(url):
    with Tenure(url) as app, pytest.raises(SettingsError, match="tenure key new"):
        app.backend  # noqa: B018 - opens it


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_that_is_not_there_says_so(scheme):
    with pytest.raises(BackendUnavailable, match="cannot be used"):
        open_backend(f"{scheme}://nobody@127.0.0.1:1/nothing", SystemClock())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://127.0.0.1/x?listen=perhaps",
        "postgresql://127.0.0.1/x?nonsense=1",
        "postgresql://127.0.0.1/x?timeout=soon",
        "mysql://127.0.0.1/x?nonsense=1",
        "mysql://127.0.0.1/x?timeout=0",
        "mysql://127.0.0.1/",
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url):
    with pytest.raises(UnknownBackend):
        open_backend(url, SystemClock())


@pytest.mark.parametrize(("name", "kind"), [("postgresql", "postgres"), ("mysql", "mariadb")])
def test_the_printed_sql_makes_what_migrating_makes(name, kind, request):
    url = request.getfixturevalue(f"{kind}_url")
    command = [sys.executable, "-m", "tenure", "db", "sql", "--dialect", name]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    run_script(url, script)
    backend = open_backend(url, SystemClock())
    taken, versions = backend.schema.steps_taken, backend.schema.version()
    backend.close()
    assert (taken, versions) == ([], (migrations.newest(name), migrations.newest(name)))


def run_script(url, script):
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(script)
        return
    import pymysql
    from pymysql.constants import CLIENT

    from tests.support.servers.fixtures import _login

    with pymysql.connect(**_login(url), client_flag=CLIENT.MULTI_STATEMENTS) as connection:
        cursor = connection.cursor()
        cursor.execute(script)
        while cursor.nextset():
            pass
        connection.commit()


def test_batches_are_never_compared_row_by_row(postgres_url, message, monkeypatch):
    plans = []
    real = connection.rows_on

    def explained(connection, statement, parameters):
        if statement in (settlements.ACK, settlements.NACK, settlements.ABANDON, claims.RENEW):
            plans.append("\n".join(row[0] for row in connection.execute(f"EXPLAIN {statement}", parameters)))
        return real(connection, statement, parameters)

    from tenure.backends.messages import Abandon, Ack

    monkeypatch.setattr(connection, "rows_on", explained)
    backend = open_backend(postgres_url, SystemClock())
    for verb, settle in (
        (backend.ack, lambda lease: Ack(lease=lease)),
        (backend.nack, lambda lease: Nack(lease=lease, delay=60)),
        (backend.abandon, lambda lease: Abandon(lease=lease, reason="failed")),
    ):
        backend.put([message(len(plans) * 100 + number) for number in range(100)])
        leases = backend.lease(["mail"], limit=100, seconds=60)
        backend.renew(leases, seconds=60)
        verb([settle(lease) for lease in leases])
    backend.close()
    assert len(plans) == 6
    assert [plan for plan in plans if "Nested Loop" in plan] == []


@pytest.fixture
def puts(monkeypatch):
    """The statements that stored messages."""
    asked = []
    real = connection.rows_on

    def noted(connection, statement, parameters):
        if statement in (PUT, PUT_NEW, PUT_ONE):
            asked.append(statement)
        return real(connection, statement, parameters)

    monkeypatch.setattr(connection, "rows_on", noted)
    return asked


def test_only_a_batch_with_a_known_message_is_searched_for_conflicts(postgres_url, message, puts):
    backend = open_backend(postgres_url, SystemClock())
    stored = [backend.put([message(number) for number in numbers]) for numbers in (range(3), range(2, 5), [5, 5])]
    backend.close()

    assert [len(ids) for ids in stored] == [3, 2, 1]
    assert puts == [PUT_NEW, *[PUT_NEW, PUT] * 2]


def test_a_single_message_is_stored_by_one_statement(postgres_url, message, puts):
    plain, again, late = message(1), message(1), structs.replace(message(2), delay=60)
    unique, rival = (structs.replace(message(number), unique="report") for number in (3, 4))
    backend = open_backend(postgres_url, SystemClock())
    stored = [backend.put([each]) for each in (plain, again, late, unique, rival)]
    backend.close()

    assert stored == [[plain.id], [], [late.id], [unique.id], []]
    assert puts == [PUT_ONE, PUT_ONE, PUT, PUT_ONE, PUT_ONE]


def test_messages_of_one_batch_may_lack_what_others_have(postgres_url, message):
    backend = open_backend(postgres_url, SystemClock())
    names, dues = ["a", "", None, 'q"\\'], [0, 4_102_444_800_000_000, 0, 0]
    messages = [structs.replace(message(at), name=names[at], due=dues[at], delay=at // 3) for at in range(4)]

    backend.put(messages)

    found = [backend.jobs.find(each.id) for each in messages]
    backend.close()
    assert [job.name for job in found] == names
    assert [(job.state, job.due_at - job.enqueued_at) for job in (found[0], found[2], found[3])] == [
        *[("ready", 0)] * 2,
        ("delayed", 1_000_000),
    ]
    assert found[1].due_at == dues[1]


def test_a_socket_is_reached_by_its_path(request, tmp_path):
    parts = urlsplit(request.getfixturevalue("mariadb_url"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the driver leaves the socket it could not connect
        with pytest.raises(BackendUnavailable, match="missing"):
            open_backend(parts._replace(query=f"socket={tmp_path}/missing.sock").geturl(), SystemClock())
        gc.collect()
