"""The commands that show or change jobs, on the embedded database and on servers."""

import pytest

from tenure.backends.records import WorkerRecord


@pytest.fixture
def jobs(desk):
    """One job done, one dead, one delayed in another queue, one ready; their ids by their state."""
    done, dead = desk.app.define("add", {"a": 1}).named("sum").dispatch(), desk.app.define("fail").dispatch()
    desk.work()
    delayed = desk.app.define("add", {"a": 2}).queue("mail").delay("1h").dispatch()
    return {"done": done, "dead": dead, "delayed": delayed, "ready": desk.app.define("add", {"a": 3}).dispatch()}


def states(desk):
    return {job["id"]: job["state"] for job in desk.json("jobs", "list")}


FILTERS = {
    "": ["ready", "delayed", "done", "dead"],
    "--state dead --state done": ["dead", "done"],
    "--queue mail": ["delayed"],
    "--job fail": ["dead"],
    "--name sum": ["done"],
    "--text LUCK": ["dead"],
    "--newer-than 1h --limit 1": ["ready"],
    "--older-than 1h": [],
}


def test_jobs_are_listed_by_every_filter(desk, jobs):
    found = {given: [job["id"] for job in desk.json("jobs", "list", *given.split())] for given in FILTERS}
    assert found == {given: [jobs[state] for state in named] for given, named in FILTERS.items()}
    lines = desk("jobs", "list").stdout.splitlines()
    assert [line.split("\t")[1] for line in lines] == ["state", *FILTERS[""]]


def test_jobs_are_shown_retried_rescheduled_and_cancelled(desk, jobs):
    shown = desk.json("jobs", "show", jobs["dead"])
    assert (shown["state"], shown["reason"], shown["error"]) == ("dead", "retries_exhausted", "ValueError: no luck")
    assert desk("jobs", "retry", jobs["dead"]).stdout == f"{jobs['dead']} is ready again\n"
    assert desk("jobs", "reschedule", jobs["ready"], "--delay", "10m").stdout == f"{jobs['ready']} may start in 10m\n"
    assert desk("jobs", "reschedule", jobs["delayed"], "--delay", "0").exit_code == 0
    assert desk("jobs", "reschedule", jobs["done"], "--delay", "0").exit_code == 2
    changed = {"done": "done", "dead": "ready", "ready": "delayed", "delayed": "ready"}
    assert states(desk) == {jobs[before]: after for before, after in changed.items()}
    assert desk.json("jobs", "cancel", jobs["ready"], jobs["delayed"]) == {
        jobs["ready"]: "cancelled",
        jobs["delayed"]: "cancelled",
    }
    assert states(desk)[jobs["ready"]] == "cancelled"


def test_queues_are_listed_paused_resumed_and_drained(desk, jobs):
    assert desk("queues", "pause", "default", "--reason", "deploy").stdout == "default paused\n"
    found = {each["queue"]: each for each in desk.json("queues", "list")}
    assert (found["default"]["ready"], found["default"]["dead"], found["mail"]["delayed"]) == (1, 1, 1)
    assert (found["default"]["reason"], found["mail"]["paused_since"]) == ("deploy", None)
    assert desk("queues", "drain", "default").stdout == "default: nothing left\n"
    assert desk("queues", "resume", "default").stdout == "default resumed\n"
    late = desk("queues", "drain", "default", "--timeout", "0")
    assert (late.exit_code, "1 jobs are left" in late.stderr) == (1, True)


def test_health_counts_jobs_and_sums_up_the_last_day(desk, jobs):
    found = desk.json("health")
    assert {name: found["queues"]["default"][name] for name in ("ready", "dead")} == {"ready": 1, "dead": 1}
    (summary,) = found["by_queue"]
    assert (summary["name"], summary["done"], summary["dead"]) == ("default", 1, 1)
    assert {each["name"] for each in found["by_handler"]} == {"add", "fail"}
    assert "\nlast 24h:\n" in desk("health").stdout


def test_dead_letters_are_listed_exported_replayed_and_purged(desk, jobs):
    (letter,) = desk.json("dead", "list", "--reason", "retries_exhausted")
    assert (letter["id"], letter["job"]) == (jobs["dead"], "fail")
    assert jobs["dead"] in desk("dead", "export").stdout
    assert desk.json("dead", "replay", "--all") == {"replayed": 1, "missing": []}
    desk.work()
    assert desk("dead", "purge", "--all", answer="n\n").exit_code == 1
    assert desk("dead", "purge", "--all", "--force").stdout == "purged 1\n"
    assert desk("dead", "list").stdout == "no dead letters\n"


def test_ended_jobs_are_purged_after_a_question_and_cleaned(desk, jobs):
    assert desk.json("purge", "--state", "done", "--dry-run") == {"would_delete_at_most": 1}
    assert desk("purge", "--state", "done", answer="n\n").exit_code == 1
    asked = desk("purge", "--state", "done", "--state", "dead", answer="y\n")
    assert asked.stdout.endswith("deleted 2 jobs\n")
    assert set(states(desk)) == {jobs["ready"], jobs["delayed"]}
    assert desk("clean").exit_code == 0


def test_workers_are_listed_and_what_vanished_ones_had_comes_back(desk, jobs):
    assert desk("workers").stdout == "no worker is alive\n"
    desk.app.backend.workers.announce(
        WorkerRecord(
            id="host:1:a", host="host", pid=1, queues=("mail",), runner="inline", concurrency=1, started_at=1, seen_at=1
        ),
        60,
    )
    assert [each["id"] for each in desk.json("workers")] == ["host:1:a"]
    assert desk.json("reap") == []
    desk.app.backend.lease(["default"], limit=1, seconds=0.0)
    (reaped,) = desk.json("reap", "default")
    assert reaped == {"id": jobs["ready"], "queue": "default", "crashed": False}
