"""What a container does with `tenure`: probes, signals, process 1, and the drain before a pod stops."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import is_alive

pytestmark = pytest.mark.slow

ORPHANS = """
import os
import signal
import subprocess
import time
from pathlib import Path

from tenure import Tenure

app = Tenure()
here = Path(__file__).parent


@app.job(max_retries=0)
def leave_orphan() -> None:
    if (here / "orphan").exists():  # it runs again after its crash
        return
    orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (here / "orphan").write_text(str(orphan.pid))
    os.kill(os.getpid(), signal.SIGKILL)


@app.job
def end_orphan() -> None:
    os.kill(int((here / "orphan").read_text()), signal.SIGKILL)


@app.job
def hold() -> None:
    (here / "started").touch()
    while not (here / "released").exists():
        time.sleep(0.005)
"""


@pytest.fixture
def probe(tenure):
    tenure.environment["TENURE_PROBE_PATH"] = str(tenure.folder / "probe")

    def probe(level):
        return tenure("health", "--probe", level).returncode

    return probe


def test_a_worker_is_alive_and_ready_until_it_stops(tenure, probe, eventually):
    assert probe("live") == 1
    tenure.enqueue("hold")
    worker = tenure.start("work")
    eventually((tenure.folder / "started").exists)
    eventually(lambda: probe("ready") == 0)

    worker.send_signal(signal.SIGTERM)
    eventually(lambda: probe("ready") == 1)
    assert probe("live") == 0

    (tenure.folder / "released").touch()
    assert worker.wait() == 0


def test_a_worker_that_waits_for_its_server_is_alive_and_not_ready(tenure, probe, eventually):
    tenure.start("work", TENURE_URL="postgresql://127.0.0.1:1/none", TENURE_KEYS="a:" + "A" * 43)
    eventually(lambda: probe("live") == 0)
    said = "not ready: starting, waiting for the backend"
    eventually(lambda: said in tenure("health", "--probe", "ready").stderr)
    assert probe("ready") == 1


def test_the_supervisor_answers_for_its_workers_and_the_scheduler_for_itself(tenure, probe, eventually):
    tenure.start("work", "--processes", "1")
    eventually(lambda: probe("ready") == 0)
    assert json.loads((tenure.folder / "probe").read_text())["text"] == "1 of 1 workers are ready"

    tenure.environment["TENURE_PROBE_PATH"] = str(tenure.folder / "other")
    tenure.start("cron", "work")
    eventually(lambda: probe("ready") == 0)


def test_the_probe_needs_the_setting(tenure):
    done = tenure("health", "--probe")
    assert done.returncode == 2
    assert "TENURE_PROBE_PATH=/tmp/tenure-probe" in done.stderr


def test_the_probe_imports_neither_the_app_nor_a_driver(tenure):
    code = """
import sys
from tenure.cli.main import main
try:
    main()
finally:
    print([name for name in ("tenure.app", "sqlite3", "shop") if name in sys.modules])
"""
    environment = {**tenure.environment, "TENURE_PROBE_PATH": "nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", code, "health", "--probe"],
        cwd=tenure.folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "[]\n")


def test_workers_of_this_host_are_drained_before_they_get_a_signal(tenure, eventually):
    tenure.enqueue("hold")
    worker = tenure.start("work")
    eventually((tenure.folder / "started").exists)
    eventually(lambda: tenure.json("workers"))

    busy = tenure("workers", "drain", "--this-host", "--wait", "0.1", "--reason", "the pod stops")
    assert busy.returncode == 1
    assert "still run jobs after 0.1 s" in busy.stderr

    (tenure.folder / "released").touch()
    done = tenure("workers", "drain", "--this-host", "--wait", "10m")
    assert done.returncode == 0, done.stderr
    (record,) = tenure.json("workers")
    assert (record["jobs"], record["draining_reason"]) == ([], "the pod stops")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_drain_needs_ids_or_this_host_and_finds_no_worker_where_none_is(tenure):
    tenure("db", "migrate")
    neither, both = tenure("workers", "drain"), tenure("workers", "drain", "a:1:b", "--this-host")
    assert "give the ids of workers, or --this-host" in neither.stderr
    assert (neither.returncode, both.returncode) == (2, 2)
    none = tenure("workers", "drain", "--this-host")
    assert (none.returncode, none.stdout) == (0, "no worker of this host is alive\n")


def as_process_1():
    """The words that run a command as process 1 of a new namespace."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *rights, "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture
def in_container(tenure):
    """Start `tenure` as process 1, without a home directory; return it, and its process as this test sees it."""
    try:
        subprocess.run([*as_process_1(), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no process namespaces: {error}")
    (tenure.folder / "shop.py").write_text(ORPHANS)
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [*as_process_1(), sys.executable, "-m", "tenure", *arguments],
            cwd=tenure.folder, env={**tenure.environment, "HOME": "/nonexistent"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_process_1_waits_for_orphans_and_passes_the_signal_to_stop_on(tenure, in_container, probe, eventually):
    tenure.enqueue("leave_orphan")
    container = in_container("work", "--concurrency", "1")
    eventually(lambda: probe("ready") == 0)
    (init,) = children_of(container.pid)
    worker = min(children_of(init))
    eventually((tenure.folder / "orphan").exists)
    eventually(lambda: len(children_of(init)) == 2)  # the worker, and the orphan that process 1 has adopted

    tenure.enqueue("end_orphan")
    eventually(lambda: children_of(init) == [worker])  # a zombie would still be there

    tenure.enqueue("hold")
    eventually((tenure.folder / "started").exists)
    os.kill(init, signal.SIGTERM)
    eventually(lambda: probe("ready") == 1)
    assert is_alive(worker)
    (tenure.folder / "released").touch()
    assert container.wait() == 0


def test_process_1_ends_as_its_command_ends(in_container):
    assert in_container("--version").wait() == 0
    assert in_container("jobs", "show", "nothing").wait() == 2


def test_process_1_ends_when_its_worker_is_killed(in_container, probe, eventually):
    container = in_container("work")
    eventually(lambda: probe("ready") == 0)
    (init,) = children_of(container.pid)
    (worker,) = children_of(init)
    os.kill(worker, signal.SIGKILL)
    assert container.wait() == 128 + signal.SIGKILL
