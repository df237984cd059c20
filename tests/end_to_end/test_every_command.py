"""The commands that show or change jobs, on the embedded database and on servers."""

import pytest

from tenure.backends.records import WorkerRecord


@pytest.fixture
def jobs(command_line):
    """One job done, one dead, one delayed in another queue, one ready; their ids by their state."""
    done, dead = (
        command_line.app.define("add", {"a": 1}).named("sum").dispatch(),
        command_line.app.define("fail").dispatch(),
    )
    command_line.work()
    delayed = command_line.app.define("add", {"a": 2}).queue("mail").delay("1h").dispatch()
    return {
        "done": done,
        "dead": dead,
        "delayed": delayed,
        "ready": command_line.app.define("add", {"a": 3}).dispatch(),
    }


def states(command_line):
    return {job["id"]: job["state"] for job in command_line.json("jobs", "list")}


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


def test_jobs_are_listed_by_every_filter(command_line, jobs):
    found = {given: [job["id"] for job in command_line.json("jobs", "list", *given.split())] for given in FILTERS}
    assert found == {given: [jobs[state] for state in named] for given, named in FILTERS.items()}
    lines = command_line("jobs", "list").stdout.splitlines()
    assert [line.split("\t")[1] for line in lines] == ["state", *FILTERS[""]]


def test_jobs_are_shown_retried_rescheduled_and_cancelled(command_line, jobs):
    shown = command_line.json("jobs", "show", jobs["dead"])
    assert (shown["state"], shown["reason"], shown["error"]) == ("dead", "retries_exhausted", "ValueError: no luck")
    assert command_line("jobs", "retry", jobs["dead"]).stdout == f"{jobs['dead']} is ready again\n"
    assert (
        command_line("jobs", "reschedule", jobs["ready"], "--delay", "10m").stdout
        == f"{jobs['ready']} may start in 10m\n"
    )
    assert command_line("jobs", "reschedule", jobs["delayed"], "--delay", "0").exit_code == 0
    assert command_line("jobs", "reschedule", jobs["done"], "--delay", "0").exit_code == 2
    changed = {"done": "done", "dead": "ready", "ready": "delayed", "delayed": "ready"}
    assert states(command_line) == {jobs[before]: after for before, after in changed.items()}
    assert command_line.json("jobs", "cancel", jobs["ready"], jobs["delayed"]) == {
        jobs["ready"]: "cancelled",
        jobs["delayed"]: "cancelled",
    }
    assert states(command_line)[jobs["ready"]] == "cancelled"


def test_queues_are_listed_paused_resumed_and_drained(command_line, jobs):
    assert command_line("queues", "pause", "default", "--reason", "deploy").stdout == "default paused\n"
    found = {each["queue"]: each for each in command_line.json("queues", "list")}
    assert (found["default"]["ready"], found["default"]["dead"], found["mail"]["delayed"]) == (1, 1, 1)
    assert (found["default"]["reason"], found["mail"]["paused_since"]) == ("deploy", None)
    assert command_line("queues", "drain", "default").stdout == "default: nothing left\n"
    assert command_line("queues", "resume", "default").stdout == "default resumed\n"
    late = command_line("queues", "drain", "default", "--timeout", "0")
    assert (late.exit_code, "1 jobs are left" in late.stderr) == (1, True)


def test_health_and_queues_show_one_queue_its_rate_and_its_handlers(command_line, jobs):
    found = command_line.json("health", "--queue", "mail")
    assert list(found["queues"]) == ["mail"]
    assert {each["queue"] for each in found["signals"]} <= {"mail"}
    assert {each["name"] for each in found["by_queue"]} <= {"mail"}
    counted = {(each["queue"], each["handler"]): each for each in command_line.json("queues", "list", "--handlers")}
    assert counted["mail", "add"]["delayed"] == 1
    assert counted["default", "add"]["ready"] == 1
    assert ("default", "fail") not in counted  # it is dead


def test_health_counts_jobs_and_sums_up_the_last_day(command_line, jobs):
    found = command_line.json("health")
    assert {name: found["queues"]["default"][name] for name in ("ready", "dead")} == {"ready": 1, "dead": 1}
    (summary,) = found["by_queue"]
    assert (summary["name"], summary["done"], summary["dead"]) == ("default", 1, 1)
    assert {each["name"] for each in found["by_handler"]} == {"add", "fail"}
    assert "\nlast 24h:\n" in command_line("health").stdout


def test_dead_letters_are_listed_exported_replayed_and_purged(command_line, jobs):
    (letter,) = command_line.json("dead", "list", "--reason", "retries_exhausted")
    assert (letter["id"], letter["job"]) == (jobs["dead"], "fail")
    assert jobs["dead"] in command_line("dead", "export").stdout
    assert command_line.json("dead", "replay", "--all") == {"replayed": 1, "missing": []}
    command_line.work()
    assert command_line("dead", "purge", "--all", answer="n\n").exit_code == 1
    assert command_line("dead", "purge", "--all", "--force").stdout == "purged 1\n"
    assert command_line("dead", "list").stdout == "no dead letters\n"


def test_ended_jobs_are_purged_after_a_question_and_cleaned(command_line, jobs):
    assert command_line.json("purge", "--state", "done", "--dry-run")["would_delete"] == 1
    assert command_line.json("purge", "--state", "done", "--before", "2126-01-01", "--dry-run")["would_delete"] == 1
    assert command_line.json("purge", "--state", "done", "--before", "1h", "--dry-run")["would_delete"] == 0
    assert command_line("purge", "--state", "done", answer="n\n").exit_code == 1
    asked = command_line("purge", "--state", "done", "--state", "dead", answer="y\n")
    assert asked.stdout.endswith("deleted 2 jobs\n")
    assert set(states(command_line)) == {jobs["ready"], jobs["delayed"]}
    assert command_line("clean").exit_code == 0


def test_workers_are_listed_and_what_vanished_ones_had_comes_back(command_line, jobs):
    assert command_line("workers").stdout == "no worker is alive\n"
    command_line.app.backend.workers.announce(
        WorkerRecord(
            id="host:1:a", host="host", pid=1, queues=("mail",), runner="inline", concurrency=1, started_at=1, seen_at=1
        ),
        60,
    )
    assert [each["id"] for each in command_line.json("workers")] == ["host:1:a"]
    assert command_line.json("reap") == []
    command_line.app.backend.lease(["default"], limit=1, seconds=0.0)
    (reaped,) = command_line.json("reap", "default")
    assert reaped == {"id": jobs["ready"], "queue": "default", "crashed": False}


def test_a_worker_is_drained_and_resumed_and_explain_says_why_its_jobs_wait(command_line, jobs):
    described = {"host": "host", "pid": 1, "runner": "inline", "concurrency": 1, "started_at": 1, "seen_at": 1}
    for id in ("host:1:a", "host:1:b"):
        command_line.app.backend.workers.announce(WorkerRecord(id=id, queues=("default",), **described), 60)
    unknown = command_line("workers", "drain", "host:1:a", "host:1:x")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
    assert "no worker 'host:1:x' is alive; did you mean 'host:1:" in unknown.stderr
    assert [each["draining_since"] for each in command_line.json("workers")] == [None, None]

    assert command_line("workers", "drain", "host:1:a").stdout == "host:1:a leases no more jobs\n"
    assert command_line.json("explain", jobs["ready"])["answer"]["code"] == "turn"
    assert command_line.json("workers", "drain", "host:1:a", "host:1:b", "--reason", "disk") == [
        {"worker": "host:1:a", "drained": False},
        {"worker": "host:1:b", "drained": True},
    ]
    first, second = command_line.json("workers")
    assert (first["draining_reason"], second["draining_reason"]) == (None, "disk")
    assert first["draining_since"] < second["draining_since"]
    header, _, line = command_line("workers").stdout.splitlines()
    assert dict(zip(header.split("\t"), line.split("\t"), strict=True))["draining_reason"] == "disk"
    reason = command_line.json("explain", jobs["ready"])["answer"]
    assert (reason["code"], reason["worker"]) == ("draining", "host:1:b")
    assert reason["text"] == "all 2 workers on queue 'default' are draining: disk"
    assert "`tenure workers resume host:1:b`" in reason["advice"]

    assert command_line("workers", "resume", "host:1:a", "host:1:b").stdout == "host:1:a resumed\nhost:1:b resumed\n"
    assert command_line("workers", "resume", "host:1:a").stdout == "host:1:a was not draining\n"
    assert command_line("workers", "resume", "host:1:x").exit_code == 2
    assert "put --json after 'resume'" in command_line("workers", "--json", "resume", "host:1:a").stderr


def test_guards_are_listed_explained_and_reset(command_line):
    app = command_line.app
    app.guards.pause("mail", "deploy")
    breaker = app.guards.breaker("stripe")
    for _ in range(5):
        with pytest.raises(ZeroDivisionError), breaker.closed():
            raise ZeroDivisionError
    app.guards.rate("1/h", key="signup").allow()
    found = {each["key"]: each for each in command_line.json("guards", "list")}
    assert found["pause:mail"]["state"] == "paused: deploy"
    assert found["rate:key:signup"]["state"].startswith("1 of 1 used; the next start is in 3")
    assert found["breaker:stripe"]["state"].startswith("open after 5 failures in a row")
    assert [each["key"] for each in command_line.json("guards", "list", "--kind", "breaker")] == ["breaker:stripe"]
    assert command_line("guards", "show", "breaker:stripe").stdout.startswith("breaker:stripe: open after 5 failures")
    done = command_line("guards", "reset", "breaker:stripe", "pause:mail", "lock:none")
    assert done.stdout.splitlines() == ["breaker:stripe is reset", "pause:mail is reset", "lock:none had no state"]
    assert (breaker.state(), app.guards.paused("mail")) == ("closed", {})
    unknown = command_line("guards", "show", "breaker:stripe")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
    assert "no guard 'breaker:stripe' has a state or waiting jobs" in unknown.stderr
