"""`tenure outbox`: what waits in the databases of an application, and the relay that moves it."""

import json
import signal
import sqlite3
import urllib.request

import pytest
from click.testing import CliRunner

from tenure import Tenure
from tenure.app.dashboard.settings_page import setting_rows
from tenure.cli.main import cli
from tenure.cli.metrics_server import AppMetrics
from tenure.metrics.prometheus import render
from tenure.redaction import Redactor
from tests.support.outboxes import enqueue_in_outbox, make_outbox, outbox_rows, run_statement
from tests.support.waiting import STOP_SECONDS


@pytest.fixture
def outbox(tmp_path):
    return f"sqlite:///{tmp_path}/app.db"


@pytest.fixture
def run(tmp_path, outbox, monkeypatch):
    """Runs a command in this process."""
    sqlite3.connect(tmp_path / "app.db").close()
    (tmp_path / "app.db").touch()
    monkeypatch.chdir(tmp_path)
    given = {"TENURE_URL": f"sqlite:///{tmp_path}/jobs.db", "TENURE_OUTBOXES": outbox, "TENURE_APP": None}

    def invoke(*arguments, exit_code=0):
        done = CliRunner().invoke(cli, arguments, env=given, prog_name="tenure")
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout) if "--json" in arguments else done.output

    return invoke


@pytest.fixture
def app(tmp_path, outbox):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", outboxes=[outbox]) as app:
        app.job(add)
        yield app


def add(a: int) -> int:
    return a + 1


def enqueue(app, outbox, count=1):
    return enqueue_in_outbox(app, outbox, [app.define("add", {"a": number}).build() for number in range(count)])


def test_migrate_creates_the_table_once(run, outbox):
    first, second = run("outbox", "migrate"), run("outbox", "migrate")

    assert first == f"{outbox}: applied 0001_outbox.sql\n{outbox}: up to date, schema version 1\n"
    assert second == f"{outbox}: up to date, schema version 1\n"


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql"])
def test_sql_prints_the_table(run, dialect):
    assert "CREATE TABLE IF NOT EXISTS tenure_outbox (" in run("outbox", "sql", "--dialect", dialect)


def test_without_the_table_a_command_says_what_to_run(run):
    assert "run `tenure outbox migrate --database URL`" in run("outbox", "status", exit_code=2)


def test_without_an_outbox_a_command_says_how_to_name_one(run, monkeypatch):
    done = CliRunner().invoke(cli, ["outbox", "status"], prog_name="tenure")

    assert (done.exit_code, "setting outboxes" in done.output) == (2, True)


def test_status_counts_what_waits(run, app, outbox):
    run("outbox", "migrate")
    empty = run("outbox", "status", "--json")
    enqueue(app, outbox, 2)

    (found,) = run("outbox", "status", "--json")

    assert empty == [{"outbox": outbox, "backend": None, "jobs": 0, "refused": 0, "oldest": 0.0}]
    assert (found["jobs"], found["refused"], found["oldest"] > 0) == (2, 0, True)
    assert run("outbox", "status").splitlines()[1].split("\t")[:4] == [outbox, "-", "2", "0"]


def test_list_shows_refused_jobs_and_retry_and_delete_change_them(run, app, outbox):
    run("outbox", "migrate")
    first, second, third = enqueue(app, outbox, 3)
    run_statement(
        outbox, f"UPDATE tenure_outbox SET tries = 2, error = 'too big', ready_at = ready_at * 2 WHERE id <> '{third}'"
    )

    refused = run("outbox", "list", "--refused", "--json")
    listed = run("outbox", "list")
    retried = run("outbox", "retry", first)
    deleted = run("outbox", "delete", second, "--why", "sold out", "--json")
    audit = run("audit", "--json")
    absent = run("outbox", "delete", second, exit_code=1)
    moved = run("outbox", "work", "--burst")

    assert [(each["id"], each["tries"], each["error"]) for each in refused] == [
        (id, 2, "too big") for id in (first, second)
    ]
    assert all(id in listed for id in (first, second, third))
    assert [(each["action"], each["target"], each["why"], each["counts"]) for each in audit] == [
        ("outbox.delete", second, "sold out", {"changed": 1}),
        ("outbox.retry", first, None, {"changed": 1}),
    ]
    assert retried == f"{first} is tried again\n"
    assert deleted == {"changed": [second], "missing": []}
    assert "does not wait in an outbox" in absent
    assert moved == "Moved: 2 jobs.\n"
    assert first.state == third.state == "ready"


def test_all_refused_jobs_are_tried_again_at_once(run, app, outbox):
    run("outbox", "migrate")
    handles = enqueue(app, outbox, 2)
    run_statement(outbox, "UPDATE tenure_outbox SET tries = 1, ready_at = ready_at * 2")

    before = run("outbox", "work", "--burst")
    run("outbox", "retry", "--refused")
    after = run("outbox", "work", "--burst")

    assert (before, after) == ("Moved: 0 jobs.\n", "Moved: 2 jobs.\n")
    assert [handle.state for handle in handles] == ["ready", "ready"]
    assert "give the ids of jobs, or --refused" in run("outbox", "retry", exit_code=2)


def test_a_job_can_be_deleted_while_the_backend_is_down(run, app, outbox, caplog):
    run("outbox", "migrate")
    (handle,) = enqueue(app, outbox)

    deleted = run("outbox", "delete", handle, "--url", "redis://127.0.0.1:1/0")

    assert f"{handle} is deleted" in deleted
    assert "is not written to the audit log" in caplog.text
    assert outbox_rows(outbox) == []


def test_doctor_warns_of_an_outbox_that_no_relay_empties(run, app, outbox):
    run("outbox", "migrate")
    enqueue(app, outbox)
    app.backend.queues.counts()
    run_statement(outbox, "UPDATE tenure_outbox SET created = created - 120000000")

    (check,) = [each for each in run("doctor", "--json")["checks"] if each["check"] == "outboxes"]

    assert check["verdict"] == "warning"
    assert f"no relay empties {outbox} (1 jobs, the oldest 1" in check["text"]


def test_the_metrics_page_shows_the_lag_and_what_was_moved(app, outbox, tmp_path):
    make_outbox(outbox)
    enqueue(app, outbox, 2)
    waiting = page(app)
    app.outboxes.move()
    moved = page(app)

    assert f'tenure_outbox_jobs{{backend="",outbox="{outbox}"}} 2.0' in waiting
    assert f'tenure_outbox_oldest_age_seconds{{backend="",outbox="{outbox}"}} ' in waiting
    assert f'tenure_outbox_jobs{{backend="",outbox="{outbox}"}} 0.0' in moved
    assert f'tenure_outbox_relayed_jobs_total{{backend="",outbox="{outbox}"}} 2.0' in moved


def page(app):
    return render(AppMetrics(app).snapshot())[0].decode()


def test_an_outbox_that_cannot_be_read_leaves_the_rest_of_the_page(app, outbox, caplog):
    text = page(app)

    assert "tenure_backend_up 1.0" in text
    assert "tenure_outbox_jobs" not in text
    assert "shows no outboxes" in caplog.text


def test_secrets_of_the_setting_are_hidden():
    with Tenure("memory://", outboxes=["postgresql://user:hunter2@host/shop"]) as app:
        shown = [row.value for row in setting_rows(app.settings, {}, Redactor()) if row.name == "outboxes"]

        assert "hunter2" not in repr(app.settings)
        assert shown == ["postgresql://host/shop"]


def test_the_relay_moves_jobs_until_it_is_stopped(tenure, tmp_path, outbox, eventually):
    make_outbox(outbox)
    relay = tenure.start("outbox", "work", "--database", outbox, "--metrics-port", "0")
    url = next(line for line in relay.stdout if line.startswith("Metrics at ")).split()[-1]
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", outboxes=[outbox]) as app:
        app.job(add)
        (handle,) = enqueue(app, outbox)
        eventually(lambda: not outbox_rows(outbox))
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        relay.send_signal(signal.SIGTERM)
        out, _ = relay.communicate(timeout=STOP_SECONDS)

        assert handle.state == "ready"
    assert relay.returncode == 0
    assert "Moved: 1 jobs." in out
    assert "tenure_outbox_relayed_jobs_total" in text


def test_a_worker_runs_the_relay_beside_its_jobs(tenure, tmp_path, outbox, eventually):
    make_outbox(outbox)
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", outboxes=[outbox]) as app:
        app.job(add)
        (handle,) = enqueue(app, outbox)
        worker = tenure.start("work", "--with-outbox", "--runner", "inline", TENURE_OUTBOXES=outbox)
        eventually(lambda: app.parts().find(handle.id) and handle.state == "done")
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(STOP_SECONDS) == 0


def test_a_burst_runs_the_jobs_that_wait_in_the_outbox(tenure, tmp_path, outbox):
    make_outbox(outbox)
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", outboxes=[outbox]) as app:
        app.job(add)
        handles = enqueue(app, outbox, 3)
        done = tenure("work", "--with-outbox", "--burst", "--runner", "inline", TENURE_OUTBOXES=outbox)

        assert done.returncode == 0
        assert [handle.state for handle in handles] == ["done"] * 3


def test_with_outbox_needs_an_outbox(tenure):
    done = tenure("work", "--with-outbox", "--burst")

    assert done.returncode == 2
    assert "setting outboxes" in done.stderr
