"""Workers in the background: pid file, log file, and the names of their processes."""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tenure.cli.process.pidfile import PidFile
from tests.support.waiting import STOP_SECONDS

LOUD = """
import os
from shop import app

@app.job
def shout() -> None:
    os.write(2, b"a word from the child\\n")
"""


@pytest.fixture
def pid_file(tenure, eventually):
    """Where a background worker writes its number; one that is left there at the end is stopped."""
    path = tenure.folder / "worker.pid"
    yield path
    if path.exists():
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.fixture
def detach(tenure, pid_file):
    """Starts a worker in the background, and returns its number."""

    def detach(*arguments):
        done = tenure("work", "--detach", "--pid-file", str(pid_file), *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        pid = int(pid_file.read_text())
        assert done.stdout == f"Working in the background, pid {pid}\n"
        return pid

    return detach


def test_a_detached_worker_works_in_a_session_of_its_own_until_it_is_told_to_stop(tenure, detach, pid_file, eventually):
    pid = detach()
    assert os.getsid(pid) == pid
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    eventually(lambda: tenure.state(id) == "done")
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not pid_file.exists())
    eventually(lambda: not Path(f"/proc/{pid}").exists() or "(zombie)" in Path(f"/proc/{pid}/status").read_text())


@pytest.mark.parametrize("style", ["json", "pretty"])
def test_a_detached_worker_writes_every_line_in_the_format_of_its_log(tenure, detach, pid_file, eventually, style):
    tenure.environment["TENURE_LOG_FORMAT"] = style
    os.kill(detach("--log-file", "work.log"), signal.SIGTERM)
    eventually(lambda: not pid_file.exists())
    lines = (tenure.folder / "work.log").read_text().splitlines()
    read = {"json": lambda line: json.loads(line)["message"], "pretty": lambda line: line.partition(" INFO: ")[2]}
    assert [read[style](line).partition(" ")[0] for line in lines] == ["Working", "Stopping", "Stopped"]


def test_several_detached_workers_are_stopped_through_their_supervisor(detach, pid_file, eventually):
    os.kill(detach("--processes", "2"), signal.SIGTERM)
    eventually(lambda: not pid_file.exists())


def test_a_detached_worker_that_cannot_start_is_told_with_the_cause(tenure, pid_file):
    done = tenure("--app", "shop:nothing", "work", "--detach", "--pid-file", str(pid_file))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "with code 2: module 'shop' has no attribute 'nothing'" in done.stderr
    assert not pid_file.exists()


def test_detaching_needs_a_pid_file(tenure):
    done = tenure("work", "--detach")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--detach needs --pid-file" in done.stderr


def test_a_pid_file_that_names_a_live_process_is_respected(tenure, detach, pid_file):
    pid = detach()
    done = tenure("work", "--detach", "--pid-file", str(pid_file))
    assert done.returncode == 2
    assert f"names process {pid}, which is running" in done.stderr
    assert int(pid_file.read_text()) == pid


@pytest.mark.parametrize("content", ["", "nonsense", "4194305\n", "-1"])
def test_a_pid_file_that_names_no_live_process_is_replaced_and_removed_at_the_end(tenure, pid_file, content):
    pid_file.write_text(content)
    assert tenure("work", "--burst", "--pid-file", str(pid_file)).returncode == 0
    assert not pid_file.exists()


def test_of_two_workers_that_start_at_once_with_one_pid_file_one_works(tenure, pid_file, eventually):
    workers = [tenure.start("work", "--pid-file", str(pid_file)) for _ in range(2)]
    eventually(lambda: any(worker.poll() is not None for worker in workers))
    refused, working = sorted(workers, key=lambda worker: worker.poll() is None)
    assert refused.returncode == 2
    assert int(pid_file.read_text()) == working.pid
    assert working.stdout.readline().startswith("Working on")  # from then on it listens to signals
    working.send_signal(signal.SIGTERM)
    assert working.wait(STOP_SECONDS) == 0


def test_a_worker_that_starts_over_keeps_its_pid_file(tenure, pid_file, eventually):
    worker = tenure.start("work", "--runner", "inline", "--pid-file", str(pid_file))
    assert worker.stdout.readline().startswith("Working on")
    worker.send_signal(signal.SIGHUP)
    assert [worker.stdout.readline().split()[0] for _ in range(2)] == ["Stopped", "Working"]
    assert int(pid_file.read_text()) == worker.pid
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    assert not pid_file.exists()


def test_a_pid_file_in_a_folder_that_does_not_exist_is_told_in_one_line(tenure):
    done = tenure("work", "--pid-file", "nowhere/worker.pid")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "worker.pid' cannot be written: No such file or directory" in done.stderr


def test_the_log_file_holds_what_the_console_shows_each_line_with_its_time(tenure):
    id = tenure.enqueue("stumble")
    done = tenure("work", "--burst", "--log-file", "work-%Y.log")
    lines = (tenure.folder / f"work-{time.strftime('%Y', time.gmtime())}.log").read_text().splitlines()
    shown = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    told = [line.split(": ", 1)[1] for line in lines]
    assert sorted(told) == sorted(line.removeprefix("CRITICAL: ") for line in shown)
    assert f"retried {id} on queue default: attempt 1 failed" in told
    assert all(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S") for line in lines)


def test_the_log_moves_to_the_next_file_when_its_name_changes(tenure, eventually):
    worker = tenure.start("work", "--log-file", "%H%M%S.log")
    assert worker.stdout.readline().startswith("Working on")
    before = {*tenure.folder.glob("*.log")}  # more than one if the second changed while the worker started
    eventually(lambda: tenure.folder / time.strftime("%H%M%S.log", time.gmtime()) not in before)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    after = {*tenure.folder.glob("*.log")} - before
    assert "Working on" in "".join(file.read_text() for file in before)
    assert "Stopped after" in "".join(file.read_text() for file in after)


def test_what_a_child_of_a_detached_worker_writes_ends_up_in_its_log(tenure, detach, eventually):
    (tenure.folder / "more.py").write_text(LOUD)
    tenure.environment["TENURE_MODULES"] = "more"
    os.kill(detach("--log-file", "work.log", "--runner", "process"), 0)
    tenure.enqueue("shout")
    log = tenure.folder / "work.log"
    eventually(lambda: "a word from the child" in log.read_text())
    assert log.read_text().count("Working on") == 1


def test_a_detached_worker_that_starts_over_goes_on_with_its_log(tenure, detach, eventually):
    pid = detach("--log-file", "work.log", "--runner", "inline")
    log = tenure.folder / "work.log"
    os.kill(pid, signal.SIGHUP)
    eventually(lambda: log.read_text().count("Working on") == 2)
    tenure.enqueue("stumble")
    eventually(lambda: "is dead (retries_exhausted): ValueError: twice" in log.read_text())
    assert log.read_text().count("is dead") == 1


def test_several_detached_workers_share_a_log_in_which_each_line_stands_once(tenure, detach, pid_file, eventually):
    pid = detach("--log-file", "work.log", "--processes", "2")
    tenure.enqueue("fail")
    log = tenure.folder / "work.log"
    eventually(lambda: "is dead" in log.read_text())
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not pid_file.exists())
    said = log.read_text()
    assert [said.count(words) for words in ("Working on", "is dead", "Stopped after")] == [2, 1, 2]


def test_standard_error_of_a_detached_worker_moves_along_with_its_log(tenure, detach, eventually):
    (tenure.folder / "more.py").write_text(LOUD)
    tenure.environment["TENURE_MODULES"] = "more"
    detach("--log-file", "%H%M%S.log", "--runner", "process", "--concurrency", "1")
    old = {*tenure.folder.glob("*.log")}
    eventually(lambda: tenure.folder / time.strftime("%H%M%S.log", time.gmtime()) not in old)
    tenure.enqueue("stumble")
    eventually(lambda: {*tenure.folder.glob("*.log")} - old)
    tenure.enqueue("shout")
    eventually(lambda: [log for log in tenure.folder.glob("*.log") if "a word from the child" in log.read_text()])
    assert not [log for log in old if "a word from the child" in log.read_text()]


def test_a_log_file_that_cannot_be_opened_is_told_in_one_line(tenure):
    done = tenure("work", "--log-file", "nowhere/work.log")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the log file 'nowhere/work.log' cannot be opened: No such file or directory" in done.stderr


def name(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it takes setproctitle")
def test_processes_are_called_what_they_are(tenure, eventually):
    supervisor = tenure.start("work", "--processes", "1", "--runner", "threads")
    worker = int(supervisor.stdout.readline().rpartition(" pid ")[2])
    children = Path(f"/proc/{worker}/task/{worker}/children")
    eventually(lambda: [name(pid) for pid in children.read_text().split()] == ["tenure: child"])
    assert (name(supervisor.pid), name(worker)) == ("tenure: supervi", "tenure: worker")


def test_setproctitle_is_used_when_it_is_installed(tenure):
    (tenure.folder / "setproctitle.py").write_text(
        "def setproctitle(title):\n    open('titles', 'a').write(f'{title}\\n')\n"
    )
    tenure("work", "--burst", "--processes", "1", "--runner", "inline")
    assert (tenure.folder / "titles").read_text() == "tenure: supervisor\ntenure: worker\n"


def test_a_pid_file_is_not_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for pid in range(os.getpid() - 5, os.getpid() + 6):
        (tmp_path / f".worker.pid.{pid}").symlink_to(victim)
    (tmp_path / "worker.pid").symlink_to(victim)
    with PidFile(str(tmp_path / "worker.pid")):
        assert (tmp_path / "worker.pid").read_text() == f"{os.getpid()}\n"
    assert victim.read_text() == "precious"
