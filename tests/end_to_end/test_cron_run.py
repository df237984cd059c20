"""`tenure cron run` and `tenure work` as real processes that are killed and stopped."""

import json
import signal
from datetime import UTC, datetime, timedelta

import pytest

SCHEDULES = """
app.schedule("add", {"a": 1}).every_minute().misfire("all")
app.schedule("note").every_minute().misfire("all").depends_on("add").queue("notes")
app.schedule("fail").yearly().inline()
app.schedule("sleep").yearly().inline()
"""


@pytest.fixture
def shop(tenure):
    with (tenure.folder / "shop.py").open("a") as shop:
        shop.write(SCHEDULES)
    return tenure


def ago(minutes):
    return (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(timespec="seconds")


def states(shop, name):
    return [each["state"] for each in shop.json("cron", "history", name)]


def test_run_enqueues_what_is_due_and_once_only(shop):
    first = shop.json("cron", "run", "--at", "2026-11-13T02:31", "--no-dry-run")
    again = shop.json("cron", "run", "--at", "2026-11-13T02:31", "--no-dry-run")

    assert [(each["name"], each["state"], each["new"]) for each in first] == [
        ("add", "enqueued", True),
        ("note", "waiting", True),
    ]
    assert [(each["new"], each["why"]) for each in again] == [(False, "was entered before")] * 2
    assert shop.state(first[0]["job"]) == "ready"


@pytest.mark.parametrize("at", ["2026-11-13T02:31", "2126-11-13T02:31"])
def test_run_at_another_time_only_shows_the_plan_unless_told_otherwise(shop, at):
    done = shop("cron", "run", "--at", at)

    assert [line.split("\t")[:2] for line in done.stdout.splitlines()[1:]] == [["add", "enqueue"], ["note", "enqueue"]]
    assert done.stderr == "Nothing was run: --at only shows the plan. Add --no-dry-run to run these ticks.\n"
    assert shop("cron", "run", "--at", at, "--dry-run").stderr == ""
    assert not (shop.folder / "jobs.db").exists()


def test_a_dependent_goes_when_the_worker_of_its_dependency_is_done(shop):
    shop("cron", "run", "--at", "2026-11-13T02:31", "--no-dry-run")
    shop("work", "--burst", "--runner", "inline")
    assert (states(shop, "add"), states(shop, "note")) == (["succeeded"], ["enqueued"])

    shop("work", "notes", "--burst", "--runner", "inline")
    assert states(shop, "note") == ["succeeded"]


def test_run_tells_by_its_exit_code_that_something_failed(shop):
    done = shop("cron", "run", "--only", "fail", "--only", "add")

    assert done.returncode == 1
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [(row[0], row[1]) for row in rows[1:]] == [("add", "enqueued"), ("fail", "failed")]
    assert "ValueError: no luck" in rows[2][4]


def test_history_is_told_to_people_and_programs(shop):
    shop("cron", "run", "--at", "2026-11-13T02:31", "--no-dry-run")
    shop("work", "--burst", "--runner", "inline")
    shop("cron", "run", "--at", "2026-11-13T02:32", "--no-dry-run")

    assert states(shop, "add") == ["enqueued", "succeeded"]
    assert len(shop.json("cron", "history", "add", "--limit", "1")) == 1
    (found,) = shop.json("cron", "history", "add", "--status", "succeeded", "--extended")
    assert (found["tick"], found["job_state"], found["output"]) == ("2026-11-13T02:31:00Z", "done", "2")
    header, *rows = shop("cron", "history", "add").stdout.splitlines()
    assert header.split("\t") == ["tick", "state", "entered", "ended", "job", "why"]
    assert len(rows) == 2
    assert shop("cron", "history", "nothing").stdout == "no ticks of 'nothing' are known\n"


def test_history_shows_what_ran_inline_with_its_error(shop):
    shop("cron", "run", "--only", "fail")

    (found,) = shop.json("cron", "history", "fail", "--extended")
    assert (found["state"], found["job_state"], found["attempts"]) == ("failed", "failed", 1)
    assert (found["error"], found["why"]) == ("ValueError: no luck", "ValueError: no luck")
    assert "raise ValueError(text)" in found["trace"]
    assert found["seconds"] >= 0
    assert "raise ValueError(text)" in shop("jobs", "show", found["job"]).stdout
    assert shop.json("dead", "list") == []


def test_a_due_job_with_a_queue_is_enqueued_and_an_inline_one_runs_once_at_once(shop):
    with (shop.folder / "shop.py").open("a") as code:
        code.write('app.schedule("stumble").named("there").yearly().queue("notes")\n')
        code.write('app.schedule("stumble").named("here").yearly().inline()\n')

    found = {
        each["name"]: each
        for each in json.loads(shop("cron", "run", "--only", "there", "--only", "here", "--json").stdout)
    }

    assert (found["there"]["state"], found["here"]["state"]) == ("enqueued", "failed")
    (waiting,) = shop.json("jobs", "list", "--queue", "notes")
    assert (waiting["state"], waiting["id"]) == ("ready", found["there"]["job"])
    (run,) = shop.json("cron", "history", "here", "--extended")
    assert (run["attempts"], run["error"]) == (1, "ValueError: twice")  # although its handler allows a retry
    shop("work", "notes", "--burst", "--runner", "inline")
    assert shop.json("jobs", "show", found["there"]["job"])["attempts"] == 2


def test_list_and_explain_tell_what_happened(shop):
    shop("cron", "run", "--at", "2026-11-13T02:31", "--no-dry-run")
    listed = {each["name"]: each["last"] for each in shop.json("cron", "list")}

    assert (listed["add"], listed["fail"]) == ("2026-11-13T02:31:00Z", None)
    assert "2026-11-13 02:31+00:00 enqueued" in shop("cron", "explain", "add").stdout


def test_a_pause_is_seen_and_ends(shop):
    assert shop("cron", "pause", "add").stdout == "'add' is paused\n"
    assert {each["name"]: each["note"] for each in shop.json("cron", "list")}["add"] == "paused"
    found = shop.json("cron", "run", "--at", "2026-11-13T02:31", "--no-dry-run")
    assert [(each["state"], each["why"]) for each in found] == [
        ("skipped", "paused"),
        ("skipped", "depends on 'add', which was skipped"),
    ]

    assert shop("cron", "resume", "add").stdout == "'add' is resumed\n"
    assert shop("cron", "pause").stdout == "all schedules are paused\n"
    refused = shop("cron", "resume", "add")
    assert (refused.returncode, refused.stderr) == (2, "Error: 'add' is not paused\n")
    assert shop("cron", "resume").stdout == "schedules are resumed\n"


def test_a_dry_run_knows_what_is_paused(shop):
    shop("cron", "pause", "add")
    found = shop.json("cron", "run", "--dry-run")
    assert [(each["would"], each["why"]) for each in found] == [
        ("skip", "paused"),
        ("skip", "depends on 'add', which was skipped"),
    ]

    shop("cron", "pause")
    assert {each["why"] for each in shop.json("cron", "run", "--dry-run")} == {"all schedules are paused"}
    assert [each["why"] for each in shop.json("cron", "run")] == ["all schedules are paused"] * 2


def test_several_schedulers_make_up_for_what_was_missed_once(shop, eventually):
    shop("cron", "run", "--at", ago(5), "--no-dry-run")
    keepers = [shop.start("cron", "work") for _ in range(2)]
    for keeper in keepers:
        assert keeper.stdout.readline().startswith("Running 4 schedules; process ")
    eventually(lambda: len(states(shop, "add")) >= 6)
    for keeper in keepers:
        keeper.send_signal(signal.SIGTERM)
        _, err = keeper.communicate(timeout=30)
        assert keeper.returncode == 0, err

    ready = json.loads(shop("health", "--json").stdout)
    assert len(states(shop, "add")) == sum(queue["ready"] for queue in _queues(ready))


def test_a_worker_keeps_the_schedules_too(shop, eventually):
    shop("cron", "run", "--at", ago(3), "--no-dry-run")
    worker = shop.start("work", "default", "notes", "--with-cron", "--runner", "inline")
    eventually(lambda: states(shop, "note")[-3:] == ["succeeded"] * 3)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0


def test_what_runs_inline_is_given_up_when_the_grace_is_over(shop, eventually):
    with (shop.folder / "shop.py").open("a") as code:
        code.write('app.schedule("sleep").named("nap").every_minute().misfire("latest").inline()\n')
    shop("cron", "pause", "nap")
    shop("cron", "run", "--at", ago(3), "--no-dry-run")
    shop("cron", "resume", "nap")
    keeper = shop.start("cron", "work", "--stop-grace", "0.2")
    eventually(lambda: (shop.folder / "started").exists())
    keeper.send_signal(signal.SIGTERM)

    assert keeper.wait(30) == 0
    (newest, *_) = shop.json("cron", "history", "nap")
    assert (newest["state"], newest["why"]) == ("failed", "the scheduler was stopped before it had ended")


def test_a_scheduler_waits_for_a_server_that_is_down(shop, own_server):
    server = own_server("redis")
    server.kill()
    keeper = shop.start("cron", "work", TENURE_URL=server.url, TENURE_ENVIRONMENT="development")
    while "waits for it" not in keeper.stderr.readline():
        assert keeper.poll() is None
    server.start()
    assert keeper.stdout.readline().startswith("Running 4 schedules")
    keeper.send_signal(signal.SIGTERM)
    assert keeper.wait(30) == 0


def _queues(health):
    return health["queues"].values() if isinstance(health.get("queues"), dict) else health["queues"]
