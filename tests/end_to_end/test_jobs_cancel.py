"""`tenure jobs cancel`, and what `tenure jobs show` prints about a running job."""

import json
import re

import pytest

from tests.support.waiting import WAIT_SECONDS


def test_a_waiting_job_is_cancelled_and_never_runs(tenure):
    ready, delayed = tenure.enqueue("add", "--payload", '{"a": 1}'), tenure.enqueue("fail", "--delay", "1h")
    done = tenure("jobs", "cancel", ready, delayed)
    assert (done.returncode, done.stdout) == (0, f"{ready} cancelled\n{delayed} cancelled\n")
    assert tenure("work", "--burst").returncode == 0
    job = tenure.json("jobs", "show", ready)
    assert (job["state"], job["reason"], job["fence"]) == ("cancelled", "cancelled on request", 0)


@pytest.mark.parametrize("runner", ["inline", "process"])
def test_a_running_job_is_shown_with_its_progress_and_asked_to_stop(tenure, runner, eventually):
    id = tenure.enqueue("count")
    worker = tenure.start("work", "--once", "--runner", runner)
    eventually(lambda: tenure.json("jobs", "show", id)["progress"] == {"done": 40, "total": 100})
    assert re.search(r"^progress: +40 of 100 \(40 %\)$", tenure("jobs", "show", id).stdout, re.MULTILINE)
    done = tenure("jobs", "cancel", id)
    assert (done.returncode, done.stdout) == (0, f"{id} asked to stop, because it is running\n")
    worker.communicate(timeout=WAIT_SECONDS)
    assert worker.returncode == 0
    assert tenure.json("jobs", "show", id)["state"] == "cancelled"
    assert not (tenure.folder / "finished").exists()


def test_a_request_that_was_not_heard_yet_is_shown(tenure, eventually):
    id = tenure.enqueue("hold")
    worker = tenure.start("work", "--once")
    eventually((tenure.folder / "started").exists)
    worker.kill()
    worker.communicate(timeout=WAIT_SECONDS)
    tenure("jobs", "cancel", id)
    assert tenure.json("jobs", "show", id)["cancel_asked"] is True
    assert re.search(r"^cancel_asked: +true$", tenure("jobs", "show", id).stdout, re.MULTILINE)


def test_what_has_ended_or_is_unknown_is_told_and_the_others_are_cancelled(tenure):
    ended = tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("work", "--burst")
    waiting = tenure.enqueue("fail")
    done = tenure("jobs", "cancel", ended, waiting, "nobody")
    assert (done.returncode, done.stdout) == (2, f"{waiting} cancelled\n")
    assert f"job {ended!r} can no longer be cancelled: it is done" in done.stderr
    assert "no job 'nobody' is known here" in done.stderr
    assert done.stderr.count("\n") == 1


def test_in_json_every_id_has_its_fate(tenure):
    waiting = tenure.enqueue("fail")
    done = tenure("jobs", "cancel", waiting, "nobody", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (2, {waiting: "cancelled", "nobody": "unknown"})


def test_a_backend_that_cannot_cancel_says_so(tenure):
    done = tenure("jobs", "cancel", "nobody", TENURE_URL="sync://")
    assert (done.returncode, done.stderr) == (2, "Error: the backend 'sync://' cannot cancel jobs\n")
