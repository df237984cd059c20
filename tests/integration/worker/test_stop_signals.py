"""`run(signals=True)`: SIGTERM and SIGINT stop a worker that a script runs."""

import signal
import subprocess
import sys
import threading

import pytest

from tenure import Tenure
from tenure.errors import SettingsError
from tests.support.waiting import WAIT_SECONDS

SCRIPT = """
import sys

from tenure import Tenure

app = Tenure("memory://")


@app.job
def hold() -> None:
    print("started", file=sys.stderr, flush=True)
    sys.stdin.readline()


hold.enqueue()
tally = app.worker().run(signals=True)
print([status.value for status in tally], flush=True)
"""


@pytest.fixture
def app():
    with Tenure("memory://") as app:
        yield app


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_running_job_finish_and_run_returns(app, number):
    before = signal.getsignal(number)

    @app.job
    def raise_signal() -> str:
        signal.raise_signal(number)
        return "finished"

    first, second = raise_signal.enqueue(), raise_signal.enqueue()
    tally = app.worker().run(signals=True)

    assert tally["acked"] == 1
    assert app.result(first) == "finished"
    assert app.backend.jobs.find(second).state == "ready"
    assert signal.getsignal(number) is before


def test_a_second_signal_interrupts_the_running_job_and_hands_it_back(app):
    @app.job
    def raise_signals() -> str:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        return "never"

    id = raise_signals.enqueue()
    app.worker().run(signals=True)
    record = app.backend.jobs.find(id)

    assert (record.state, record.attempts) == ("ready", 0)


def test_signals_are_left_alone_unless_asked(app):
    @app.job
    def handler_of_sigterm() -> str:
        return str(signal.getsignal(signal.SIGTERM))

    id = handler_of_sigterm.enqueue()
    app.worker(burst=True).run()

    assert app.result(id) == str(signal.getsignal(signal.SIGTERM))


def test_signals_need_the_main_thread(app):
    errors = []

    def run():
        try:
            app.worker(burst=True).run(signals=True)
        except SettingsError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WAIT_SECONDS)

    assert "main thread only" in errors[0]


def test_a_script_finishes_its_job_after_sigterm():
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as script:
        assert script.stderr.readline() == "started\n"
        script.send_signal(signal.SIGTERM)
        printed, _ = script.communicate("done\n", timeout=WAIT_SECONDS)

    assert (printed, script.returncode) == ("['acked']\n", 0)
