"""`tenure work` stops on signals."""

import os
import signal
import time

import pytest

from tests.support.waiting import STOP_SECONDS


@pytest.fixture(params=["inline", "process"])
def busy(request, tenure, eventually):
    """A worker in the middle of its only job at a time, and the id of that job."""
    id = tenure.enqueue("hold")
    worker = tenure.start("work", "--runner", request.param, "--concurrency", "1")
    eventually((tenure.folder / "started").exists)
    return worker, id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_told_to_stop_finishes_its_job_and_exits_0(tenure, busy, number):
    worker, id = busy
    worker.send_signal(number)
    assert worker.stderr.readline().startswith("Stopping once the running job is done")
    (tenure.folder / "released").touch()
    assert worker.wait(STOP_SECONDS) == 0
    assert (tenure.folder / "finished").exists()
    assert tenure.state(id) == "done"


def test_a_worker_told_to_stop_takes_no_other_job(tenure, busy):
    worker, _ = busy
    waiting = tenure.enqueue("add", "--payload", '{"a": 1}')
    worker.send_signal(signal.SIGTERM)
    worker.stderr.readline()
    (tenure.folder / "released").touch()
    assert worker.wait(STOP_SECONDS) == 0
    assert tenure.state(waiting) == "ready"


def test_a_worker_told_twice_hands_its_job_back_uncharged_and_exits_0(tenure, busy):
    worker, id = busy
    worker.send_signal(signal.SIGTERM)
    worker.stderr.readline()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["attempts"], job["crashes"], job["owner"]) == ("ready", 0, 0, None)
    assert not (tenure.folder / "finished").exists()


@pytest.mark.timing
def test_an_idle_worker_exits_soon(tenure, eventually):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    worker = tenure.start("work")
    eventually(lambda: tenure.state(id) == "done")  # from here on it waits for work
    told = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    assert time.monotonic() - told < 4.0  # half a second when the machine is idle; a role that hangs is given 5 s


def test_several_processes_told_to_stop_finish_their_jobs_and_exit_0(tenure, eventually):
    id = tenure.enqueue("hold")
    parent = tenure.start("work", "--processes", "2")
    eventually((tenure.folder / "started").exists)
    assert [parent.stdout.readline()[:10] for _ in range(2)] == ["Working on"] * 2
    parent.send_signal(signal.SIGTERM)
    assert [parent.stderr.readline()[:8] for _ in range(2)] == ["Stopping"] * 2
    (tenure.folder / "released").touch()
    assert parent.wait(STOP_SECONDS) == 0
    assert tenure.state(id) == "done"


def test_several_processes_told_twice_hand_their_jobs_back(tenure, eventually):
    id = tenure.enqueue("hold")
    parent = tenure.start("work", "--processes", "2")
    eventually((tenure.folder / "started").exists)
    assert [parent.stdout.readline()[:10] for _ in range(2)] == ["Working on"] * 2
    parent.send_signal(signal.SIGINT)
    assert [parent.stderr.readline()[:8] for _ in range(2)] == ["Stopping"] * 2
    parent.send_signal(signal.SIGINT)
    assert parent.wait(STOP_SECONDS) == 0
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["attempts"], job["crashes"]) == ("ready", 0, 0)


def test_ctrl_c_reaches_several_processes_through_their_parent_alone(tenure):
    parent = tenure.start("work", "--processes", "2")
    pids = [int(parent.stdout.readline().rpartition(" pid ")[2]) for _ in range(2)]
    assert os.getpgid(parent.pid) not in {os.getpgid(pid) for pid in pids}
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does; in one group it would count as two signals
    assert parent.wait(STOP_SECONDS) == 0


def test_workers_stop_when_the_process_that_started_them_dies(tenure):
    parent = tenure.start("work", "--processes", "2")
    assert [parent.stdout.readline()[:10] for _ in range(2)] == ["Working on"] * 2
    parent.kill()
    summaries, _ = parent.communicate(timeout=STOP_SECONDS)  # ends when the last of them closes its end
    assert summaries.count("Stopped after") == 2


SLOW_TO_LEAVE = """
import os, time
class Slow:
    def __del__(self, os=os, sleep=time.sleep):  # when the interpreter has ended its own handling of signals
        os.close(os.open("leaving", os.O_CREAT))
        while not os.path.exists("gone"):
            sleep(0.01)
slow = Slow()
"""


@pytest.mark.parametrize("arguments", [["work", "--runner", "inline"], ["cron", "work"]])
def test_a_signal_that_comes_at_the_very_end_does_not_spoil_the_exit_code(tenure, eventually, arguments):
    app = tenure.folder / "shop.py"
    app.write_text(f"{app.read_text()}\n{SLOW_TO_LEAVE}")
    process = tenure.start(*arguments)
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    eventually((tenure.folder / "leaving").exists)
    process.send_signal(signal.SIGTERM)
    (tenure.folder / "gone").touch()
    assert process.wait(STOP_SECONDS) == 0
