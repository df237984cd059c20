"""What a worker and a supervisor report to systemd; the test holds the other end of the socket."""

import os
import secrets
import signal
import socket
import time

import pytest

from tests.support.waiting import STOP_SECONDS, WAIT_SECONDS

STUCK = """
import os
import time
from shop import app, here

verb = os.environ.get("VERB", "lease")
original = getattr(app.backend, verb)


def sticky(*arguments, **options):
    while (here / "stuck").exists():
        (here / "hanging").touch()
        time.sleep(0.01)
    return original(*arguments, **options)


setattr(app.backend, verb, sticky)
"""


class Systemd:
    """Receives notices at an address."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(WAIT_SECONDS)

    def hear(self, word):
        """The next notice with this word; what comes before it is dropped."""
        while True:
            notice = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())
            if word in notice:
                return notice

    def count(self, word, seconds):
        """How many notices with this word come in this time."""
        end = time.monotonic() + seconds
        found = 0
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                found += f"{word}=".encode() in self.socket.recv(4096)
            except TimeoutError:
                break
        self.socket.settimeout(WAIT_SECONDS)
        return found


@pytest.fixture
def systemd(tmp_path):
    systemd = Systemd(str(tmp_path / "notify"))
    yield systemd
    systemd.socket.close()


@pytest.fixture
def start(tenure, tmp_path):
    def start(*arguments, **environment):
        return tenure.start("work", *arguments, NOTIFY_SOCKET=str(tmp_path / "notify"), **environment)

    return start


def test_a_worker_is_ready_once_it_leases(systemd, start):
    worker = start()
    assert systemd.hear("READY") == {"READY": "1", "X_STOP_GRACE": "30.0", "STATUS": "0 done, 0 retried, 0 dead"}
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0


def test_an_abstract_socket_is_told_too(tenure):
    name = f"tenure-{secrets.token_hex(8)}"
    systemd = Systemd(f"\0{name}")
    worker = tenure.start("work", NOTIFY_SOCKET=f"@{name}")
    assert systemd.hear("READY")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    systemd.socket.close()


def test_a_worker_whose_backend_does_not_answer_is_not_ready(tenure, systemd, start):
    (tenure.folder / "more.py").write_text(STUCK)
    (tenure.folder / "stuck").touch()
    worker = start(TENURE_MODULES="more")
    assert worker.stdout.readline().startswith("Working on")
    assert systemd.count("READY", 0.5) == 0
    (tenure.folder / "stuck").unlink()
    assert systemd.hear("READY")


def test_a_worker_that_stops_says_so_and_asks_for_the_time_it_needs(systemd, start):
    worker = start("--stop-grace", "600")
    systemd.hear("READY")
    worker.send_signal(signal.SIGTERM)
    assert systemd.hear("STOPPING") == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "605000000"}


def test_a_worker_that_cannot_start_says_why(systemd, start):
    assert start(TENURE_APP="shop:nothing").wait(STOP_SECONDS) == 2
    assert "has no attribute 'nothing'" in systemd.hear("STATUS")["STATUS"]


@pytest.mark.timing
@pytest.mark.parametrize("runner", ["inline", "threads"])
def test_the_watchdog_is_fed_twice_a_period_even_while_a_job_runs(tenure, systemd, start, eventually, runner):
    tenure.enqueue("hold")
    start("--runner", runner, WATCHDOG_USEC="400000")
    eventually((tenure.folder / "started").exists)
    systemd.hear("WATCHDOG")
    assert 4 <= systemd.count("WATCHDOG", 2.0) <= 12


def test_a_watchdog_for_another_process_is_not_fed(systemd, start):
    start(WATCHDOG_USEC="100000", WATCHDOG_PID="1")
    systemd.hear("READY")
    assert systemd.count("WATCHDOG", 0.5) == 0


@pytest.mark.parametrize(("verb", "job"), [("lease", "note"), ("renew", "hold"), ("ack", "note")])
def test_a_worker_with_a_role_that_is_stuck_does_not_feed_the_watchdog(tenure, systemd, start, eventually, verb, job):
    (tenure.folder / "more.py").write_text(STUCK)
    start(TENURE_MODULES="more", WATCHDOG_USEC="900000", TENURE_LEASE="1", VERB=verb)  # more than a lease may wait
    systemd.hear("WATCHDOG")
    (tenure.folder / "stuck").touch()
    tenure.enqueue(job)
    eventually((tenure.folder / "hanging").exists)
    eventually(lambda: systemd.count("WATCHDOG", 2.5) == 0)  # the silence must have lasted for a period before


def test_a_supervisor_replaces_a_worker_whose_leasing_is_stuck(tenure, systemd, start):
    (tenure.folder / "more.py").write_text(STUCK)
    supervisor = start("--processes", "1", TENURE_MODULES="more", WATCHDOG_USEC="1200000")
    systemd.hear("READY")
    (tenure.folder / "stuck").touch()
    assert "has made no progress for 1.2 s and is killed" in supervisor.stderr.readline()
    (tenure.folder / "stuck").unlink()
    assert systemd.hear("READY")
    assert systemd.hear("WATCHDOG")


def test_a_supervisor_is_ready_once_all_its_workers_are(systemd, start):
    supervisor = start("--processes", "2")
    assert systemd.hear("READY")["STATUS"] == "2 of 2 workers are ready"
    supervisor.send_signal(signal.SIGTERM)
    assert systemd.hear("STOPPING")
    assert supervisor.wait(STOP_SECONDS) == 0


@pytest.mark.parametrize("options", [["--runner", "inline"], ["--runner", "process"], ["--processes", "1"]])
def test_a_reload_begins_and_ends_with_a_notice(systemd, start, options):
    process = start(*options)
    systemd.hear("READY")
    process.send_signal(signal.SIGHUP)
    assert int(systemd.hear("RELOADING")["MONOTONIC_USEC"]) < time.monotonic() * 1e6
    assert systemd.hear("READY")


def test_a_supervisor_kills_a_worker_that_does_not_stop(systemd, start):
    supervisor = start("--processes", "1", "--stop-grace", "0")
    pid = int(supervisor.stdout.readline().rpartition(" pid ")[2])
    systemd.hear("READY")
    os.kill(pid, signal.SIGSTOP)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(STOP_SECONDS) == 128 + signal.SIGKILL
