"""`tenure jobs reschedule`."""

import json


def test_a_waiting_job_is_put_off_and_brought_forward(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    done = tenure("jobs", "reschedule", id, "--delay", "10m")
    assert (done.returncode, done.stdout) == (0, f"{id} may start in 10m\n")
    assert tenure("work", "--burst").returncode == 0
    assert tenure.state(id) == "delayed"
    done = tenure("jobs", "reschedule", id, "--at", "2031-03-01T09:00", TENURE_TIMEZONE="Europe/Madrid")
    assert (done.returncode, done.stdout) == (0, f"{id} may start at 2031-03-01 08:00:00+00:00\n")
    assert tenure.json("jobs", "show", id)["due_at"] == "2031-03-01T08:00:00Z"
    done = tenure("jobs", "reschedule", id, "--delay", "0")
    assert done.stdout == f"{id} may start at once\n"
    assert tenure("work", "--burst").returncode == 0
    assert tenure.state(id) == "done"


def test_what_does_not_wait_is_told_and_the_others_are_rescheduled(tenure):
    ended = tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("work", "--burst")
    waiting = tenure.enqueue("fail")
    done = tenure("jobs", "reschedule", ended, waiting, "nobody", "--delay", "90")
    assert (done.returncode, done.stdout) == (2, f"{waiting} may start in 90 s\n")
    assert f"job {ended!r} is done; only waiting jobs can be rescheduled" in done.stderr
    assert "no job 'nobody' is known here" in done.stderr
    done = tenure("jobs", "reschedule", waiting, "nobody", "--delay", "1h", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (2, {waiting: "rescheduled", "nobody": "unknown"})


def test_a_time_must_be_given_and_the_backend_must_find_jobs(tenure):
    done = tenure("jobs", "reschedule", "nobody")
    assert (done.returncode, done.stderr) == (2, "Error: give either --delay TIME or --at TIME\n")
    done = tenure("jobs", "reschedule", "nobody", "--delay", "0", TENURE_URL="sync://")
    assert (done.returncode, "cannot reschedule jobs" in done.stderr) == (2, True)
