"""Fixtures of integration tests: backends to run on, other processes, bounded workers."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from tenure import Tenure
from tenure.backends.messages import Message
from tenure.testing import FakeClock
from tenure.wire.signing import new_key
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request, tmp_path, monkeypatch):
    if request.param == "redis":
        monkeypatch.setenv("TENURE_KEYS", new_key().dump())  # what is on a server must be signed
        return request.getfixturevalue("redis_url")
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}[request.param]


@pytest.fixture
def app(url, clock):
    with Tenure(url, clock=clock, backoff={"jitter": 0}) as app:
        yield app


@pytest.fixture(scope="session")
def message():
    """Makes messages: message(7, queue="mail")."""

    def make(number, **fields):
        return Message(**{"id": f"job-{number:08d}", "queue": "mail", "body": b"{}", "handler": "greet", **fields})

    return make


@pytest.fixture
def run_within():
    """Runs a worker here, and stops it when it takes too long, so that the test can compare its tally."""

    def run(worker, seconds=WAIT_SECONDS):
        timer = threading.Timer(seconds, worker.stop)
        timer.start()
        try:
            return worker.run()
        finally:
            timer.cancel()

    return run


@pytest.fixture
def start():
    """Starts Python code in another process, its arguments in sys.argv; whatever still runs at the end is killed."""
    started = []

    def run(code, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def finish():
    """Waits for processes to end well; what each printed."""

    def wait(*processes):
        outputs = [process.communicate(timeout=WAIT_SECONDS) for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes), outputs
        return [output for output, _ in outputs]

    return wait
