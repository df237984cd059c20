"""What the log says about outcomes, and what the execution log stores."""

import json
import logging
import os
import time
from datetime import UTC, datetime

import pytest

from tenure import Job, Tenure
from tenure.backends.messages import Message
from tenure.errors import JobFailed, Snooze
from tenure.redaction import Redactor
from tenure.testing import FakeClock
from tenure.wire.signing import SEAL_SIZE
from tenure.worker.logs import DatedLogFile, ExecutionLog
from tests.support.waiting import WAIT_SECONDS

LOGGER = "tenure.worker.logs"


@pytest.fixture(autouse=True)
def unstarted_jobs_wait(monkeypatch):
    """On a busy machine a job may wait so long for its start that its worker would hand it back."""
    monkeypatch.setattr("tenure.worker.keeper._UNSTARTED_SECONDS", WAIT_SECONDS)


@pytest.fixture
def made(tmp_path):
    """An app with an execution log, and how to read that."""
    log = tmp_path / "jobs.log"
    app = Tenure("memory://", execution_log=str(log), max_output=40, backoff={"jitter": 0})

    @app.job
    def greet(name: str, password: str = "") -> str:
        return f"hello {name}"

    @app.job(max_retries=1, backoff="none")
    def stumble() -> None:
        raise ValueError("the token=abcdef0123456789 is wrong")

    @app.job
    def later() -> None:
        raise Snooze("1h")

    with app:
        yield app, (lambda: [json.loads(line) for line in log.read_text().splitlines()])


def run(app, key, **payload):
    id = app.define(key, payload).dispatch()
    app.worker(burst=True).run()
    return id


def test_each_outcome_is_a_line_with_its_ids(made, caplog):
    app, _ = made
    caplog.set_level(logging.INFO, LOGGER)
    id = run(app, "greet", name="Ada")
    (line,) = [record for record in caplog.records if record.name == LOGGER]
    assert line.getMessage().startswith(f"job {id} on queue 'default' is done, attempt 1, ")
    assert (line.job, line.queue, line.status, line.attempt, line.handler) == (id, "default", "acked", 1, "greet")


def test_nothing_is_logged_of_a_success_unless_asked(made, caplog):
    app, _ = made
    caplog.set_level(logging.WARNING, LOGGER)
    run(app, "greet", name="Ada")
    assert [record for record in caplog.records if record.name == LOGGER] == []


def test_exhausted_retries_are_critical(made, caplog):
    app, _ = made
    caplog.set_level(logging.INFO, LOGGER)
    id = run(app, "stumble")
    first, last = [record for record in caplog.records if record.name == LOGGER]
    assert (first.levelname, first.status, first.attempt) == ("INFO", "requeued", 1)
    assert (last.levelname, last.job, last.reason, last.attempt) == ("CRITICAL", id, "retries_exhausted", 2)
    assert last.error.startswith("ValueError: ")


def test_a_rejected_signature_is_critical(made, caplog):
    app, _ = made
    id = app.define("greet", {"name": "Ada"}).dispatch()
    entry = app.backend.inner._table.entries[id]
    entry.message = type(entry.message)(
        **{
            **{name: getattr(entry.message, name) for name in entry.message.__struct_fields__},
            "body": entry.message.body.replace(b"Ada", b"Eve"),
        }
    )
    app.worker(burst=True).run()
    (line,) = [record for record in caplog.records if record.name == LOGGER]
    assert (line.levelname, line.job, line.reason, line.status) == ("CRITICAL", id, "bad_signature", "rejected")


def test_a_job_that_dies_where_it_is_enqueued_is_critical_too(made, caplog):
    app, _ = made
    with pytest.raises(JobFailed):
        app.define("stumble", {}).max_retries(0).dispatch(backend="sync://")
    (line,) = [record for record in caplog.records if record.name == LOGGER]
    assert (line.levelname, line.reason) == ("CRITICAL", "retries_exhausted")


def test_an_execution_is_kept_with_what_it_was_given_and_gave(made):
    app, read = made
    id = run(app, "greet", name="Ada", password="swordfish")
    (line,) = read()
    assert (line["job"], line["handler"], line["queue"], line["status"]) == (id, "greet", "default", "acked")
    assert (line["attempt"], line["fence"], line["output"], line["output_length"]) == (1, 1, "hello Ada", 9)
    assert json.loads(line["payload"]) == {"name": "Ada", "password": "***"}
    assert len(line["payload_hash"]) == 64
    assert line["started"] <= line["ended"]
    assert {"time", "seconds", "wait", "worker"} <= line.keys()


def test_a_failed_attempt_is_kept_with_its_error_masked(made):
    app, read = made
    run(app, "stumble")
    assert [(line["status"], line["attempt"]) for line in read()] == [("requeued", 1), ("dead-lettered", 2)]
    assert "abcdef0123456789" not in json.dumps(read())
    assert "ValueError" in read()[0]["error"]


def test_long_output_is_cut_in_the_log_and_in_the_history(made):
    app, read = made
    id = run(app, "greet", name="A" * 100)
    assert read()[0]["output"].startswith("hello AAA")
    assert app.backend.jobs.find(id).output == f"hello {'A' * 34}… (106 characters in all)"


def test_output_that_was_cut_twice_keeps_its_full_length(made):
    app, read = made
    record = app.backend.jobs.find(run(app, "greet", name="A" * 70_000))
    assert (read()[0]["output"], read()[0]["output_length"]) == (record.output, 70_006)
    assert record.output == f"hello {'A' * 34}… (70006 characters in all)"
    assert record.run.output_length == 70_006


def test_characters_that_control_a_terminal_are_escaped_in_the_execution_log(tmp_path):
    log = tmp_path / "jobs.log"
    with Tenure("memory://", execution_log=str(log)) as app:
        app.job(lambda text: text, name="echo")
        run(app, "echo", text="\x9b31m \u202egnp.exe \x7f \x1b[2J")
    [line] = log.read_text("utf-8").splitlines()
    assert line.isprintable()
    assert json.loads(line)["output"] == "\x9b31m \u202egnp.exe \x7f \x1b[2J"


@pytest.mark.parametrize("length", [100, 60_000])
def test_a_secret_on_the_edge_of_a_cut_text_is_masked(tmp_path, length):
    log = tmp_path / "jobs.log"
    secret = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
    execution_log = ExecutionLog(DatedLogFile(str(log)), FakeClock(), Redactor(), 40)
    text = f"{'x ' * 15}{secret}{' x' * length}"
    assert execution_log._text(text) == f"{'x ' * 15}*** x x x … ({len(text)} characters in all)"


def test_a_job_that_postpones_itself_was_executed_and_one_that_waited_was_not(made):
    app, read = made
    run(app, "later")
    assert [line["status"] for line in read()] == ["postponed"]


def test_a_log_that_cannot_be_written_costs_no_job_and_is_told_once(tmp_path, caplog):
    app = Tenure("memory://", execution_log=str(tmp_path / "nowhere" / "jobs.log"))
    app.job(name="greet")(lambda name: f"hello {name}")
    run(app, "greet", name="Ada")
    assert app.backend.queues.counts()["default"]["done"] == 1
    assert "cannot be written" in caplog.text


def log_at(path, keep=0):
    return ExecutionLog(DatedLogFile(str(path), keep), FakeClock(), Redactor(), 100)


def test_a_file_that_was_moved_away_is_written_anew(tmp_path, monkeypatch):
    log = log_at(tmp_path / "jobs.log")
    log._write("one\n")
    (tmp_path / "jobs.log").rename(tmp_path / "jobs.log.1")
    monkeypatch.setattr(log._file, "_check_at", 0.0)
    log._write("two\n")
    log.close()
    assert (tmp_path / "jobs.log").read_text() == "two\n"
    assert (tmp_path / "jobs.log.1").read_text() == "one\n"


def test_a_dated_file_moves_on_and_only_so_many_are_kept(tmp_path, monkeypatch):
    day = [time.strptime("2026-03-01", "%Y-%m-%d")]
    monkeypatch.setattr("tenure.worker.logs.time.strftime", lambda pattern: real(pattern, day[0]))
    (tmp_path / "jobs-important.log").touch()
    log = log_at(tmp_path / "jobs-%Y-%m-%d.log", keep=2)
    for date in ("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"):
        day[0] = time.strptime(date, "%Y-%m-%d")
        log._write(f"{date}\n")
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "jobs-2026-03-03.log",
        "jobs-2026-03-04.log",
        "jobs-important.log",
    ]


real = time.strftime


def test_a_new_log_file_is_for_its_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        DatedLogFile(str(tmp_path / "jobs.log")).open().close()
    finally:
        os.umask(before)
    assert (tmp_path / "jobs.log").stat().st_mode & 0o777 == 0o600


def test_a_log_file_may_be_a_link_that_this_user_made(tmp_path):
    (tmp_path / "jobs.log").symlink_to(tmp_path / "elsewhere.log")
    with DatedLogFile(str(tmp_path / "jobs.log")).open() as stream:
        stream.write("a line\n")
    assert (tmp_path / "elsewhere.log").read_text() == "a line\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user")
def test_a_log_file_is_not_written_through_the_link_of_another_user(tmp_path):
    (tmp_path / "target").write_text("")
    (tmp_path / "jobs.log").symlink_to(tmp_path / "target")
    os.chown(tmp_path / "jobs.log", 12345, 12345, follow_symlinks=False)
    with pytest.raises(OSError, match="symbolic links"):
        DatedLogFile(str(tmp_path / "jobs.log")).open()
    assert (tmp_path / "target").read_text() == ""


@pytest.mark.parametrize("payload", [b"1e999", b"9" * 5000, b'"\xff"', b"[" * 60, b'"\\ud800"'])
def test_a_payload_that_no_decoder_reads_is_left_out_of_the_execution_log(made, payload):
    app, lines = made
    sealed = app.open_backend().wire.seal(
        Job(handler="greet", expires_at=datetime(2000, 1, 1, tzinfo=UTC)), b'"<payload>"', "odd", 0
    )
    unsealed = sealed[:-SEAL_SIZE].replace(b'"<payload>"', payload) + b"}"
    app.backend.put([Message(id="odd", queue="default", body=app.open_backend().wire.ring.seal(unsealed), handler="x")])
    good = run(app, "greet", name="Ada")

    odd, other = sorted(lines(), key=lambda line: line["job"] == good)

    assert (odd["job"], odd["status"] in ("expired", "rejected"), "payload" in odd) == ("odd", True, False)
    assert (other["job"], other["payload"]) == (good, '{"name":"Ada"}')
