"""`tenure work`: what it runs, what it prints, and when it ends by itself."""

import json
import re
import signal

import pytest

from tests.support.waiting import STOP_SECONDS, eventually


def test_burst_runs_what_is_ready_and_ends(tenure):
    ids = [tenure.enqueue("add", "--payload", '{"a": 1}') for _ in range(3)]
    later = tenure.enqueue("add", "--payload", '{"a": 1}', "--delay", "1h")
    done = tenure("work", "--burst")
    assert (done.returncode, done.stderr) == (0, "")
    assert [tenure.state(id) for id in [*ids, later]] == ["done", "done", "done", "delayed"]


def test_a_worker_says_what_it_works_on_and_what_became_of_it(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    first, last = tenure("work", "--burst", "--concurrency", "3").stdout.splitlines()
    served = f"Working on priority, default (process × 3) at sqlite:///{tenure.folder}/jobs.db, worker "
    assert re.fullmatch(re.escape(served) + r"\S+:(\d+):\w+, pid \1", first)
    assert last.startswith("Stopped after ")
    assert last.endswith(": 1 done, 0 retried, 0 dead")


def test_a_worker_prints_the_id_under_which_it_is_listed(tenure):
    worker = tenure.start("work")
    printed = worker.stdout.readline().rpartition(", worker ")[2].partition(",")[0].strip()
    eventually(lambda: [each["id"] for each in tenure.json("workers")] == [printed])


def test_a_worker_that_is_drained_finishes_its_job_and_works_on_when_it_is_resumed(tenure):
    held, waiting = tenure.enqueue("hold"), tenure.enqueue("add", "--payload", '{"a": 1}')
    worker = tenure.start("work", "--concurrency", "1")
    eventually((tenure.folder / "started").exists)
    (found,) = eventually(lambda: tenure.json("workers"))
    assert tenure("workers", "drain", found["id"], "--reason", "new disk").stdout.endswith("leases no more jobs\n")
    found = eventually(lambda: (now := tenure.json("workers")[0])["running"] and now)
    assert found["draining_reason"] == "new disk"
    assert (found["running"][0]["id"], found["running"][0]["handler"]) == (held, "hold")
    assert found["running"][0]["started_at"] < found["seen_at"]
    assert found["memory"] > found["peak_child"] > 0
    assert found["lanes"][0]["held"] == 1
    assert tenure.json("explain", waiting)["answer"]["code"] == "draining"
    (tenure.folder / "released").touch()
    eventually(lambda: tenure.state(held) == "done")
    # The worker writes its counts with its heartbeat, which is later than a lease of the second job would be.
    eventually(lambda: tenure.json("workers")[0]["counts"] == {"acked": 1})
    assert (tenure.state(waiting), worker.poll()) == ("ready", None)
    assert tenure("workers", "resume", found["id"]).stdout.endswith("resumed\n")
    eventually(lambda: tenure.state(waiting) == "done")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0


def test_without_queues_a_worker_serves_priority_before_default(tenure):
    usual = tenure.enqueue("add", "--payload", '{"a": 1}')
    urgent = tenure.enqueue("add", "--payload", '{"a": 1}', "--queue", "Priority")
    tenure("work", "--once", "--runner", "inline")
    assert [tenure.state(id) for id in (urgent, usual)] == ["done", "ready"]
    tenure("work", "--burst", "--runner", "inline")
    assert tenure.state(usual) == "done"


def test_a_worker_tells_of_each_retry_and_each_dead_letter(tenure):
    id = tenure.enqueue("stumble")
    done = tenure("work", "--burst")
    assert f"retried {id} on queue default: attempt 1 failed" in done.stdout.splitlines()
    assert done.stderr == f"CRITICAL: job {id} on queue 'default' is dead (retries_exhausted): ValueError: twice\n"


def test_a_quiet_worker_prints_nothing(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    done = tenure("work", "--burst", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_password_in_the_url_is_not_shown(tenure):
    done = tenure("health", TENURE_URL="vault://user:secret@host/x?token=secret")
    assert done.returncode == 2
    assert "vault://host/x" in done.stderr
    assert "secret" not in done.stderr


def test_an_error_message_cannot_steer_the_terminal(tenure):
    tenure.enqueue("fail", "--payload", r'{"text": "\u001b[2Jgone\nnext"}')
    done = tenure("work", "--burst")
    assert done.stderr.endswith(r"ValueError: \x1b[2Jgone next" + "\n")


def test_burst_exits_1_when_a_job_died(tenure):
    tenure.enqueue("fail")
    assert tenure("work", "--burst").returncode == 1


def test_once_runs_one_job(tenure):
    ids = [tenure.enqueue("add", "--payload", '{"a": 1}') for _ in range(2)]
    assert tenure("work", "--once").returncode == 0
    assert [tenure.state(id) for id in ids] == ["done", "ready"]


def test_once_does_not_wait_for_a_job(tenure):
    assert tenure("work", "--once").returncode == 0


def test_max_ends_after_that_many_jobs(tenure):
    ids = [tenure.enqueue("add", "--payload", '{"a": 1}') for _ in range(3)]
    assert tenure("work", "--max", "2").returncode == 0
    assert [tenure.state(id) for id in ids] == ["done", "done", "ready"]


def test_queues_are_served_in_the_order_they_are_named(tenure):
    low = tenure.enqueue("add", "--payload", '{"a": 1}', "--queue", "low")
    high = tenure.enqueue("add", "--payload", '{"a": 1}', "--queue", "high")
    tenure("work", "high", "low", "--once")
    assert [tenure.state(high), tenure.state(low)] == ["done", "ready"]


def test_only_the_named_queues_are_served(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}', "--queue", "other")
    tenure("work", "--burst")
    assert tenure.state(id) == "ready"


def test_weighted_queues_are_all_served(tenure):
    ids = [tenure.enqueue("add", "--payload", '{"a": 1}', "--queue", queue) for queue in ("a", "b", "c")]
    assert tenure("work", "a:10", "b:0.5", "c", "--burst").returncode == 0
    assert {tenure.state(id) for id in ids} == {"done"}


def test_several_processes_share_the_work_and_the_worst_exit_code(tenure):
    ids = [tenure.enqueue("add", "--payload", '{"a": 1}') for _ in range(3)]
    dead = tenure.enqueue("fail")
    done = tenure("work", "--burst", "--processes", "2")
    assert done.returncode == 1
    assert done.stdout.count("Working on priority, default") == 2
    assert [tenure.state(id) for id in [*ids, dead]] == ["done", "done", "done", "dead"]


def test_only_suspects_are_run_if_asked(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    done = tenure("work", "--suspects")
    assert (done.returncode, tenure.state(id)) == (0, "ready")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--runner", "inline", "--concurrency", "2"], "is inline, which runs one job at a time"),
        (["emails:0"], "the weight in 'emails:0' must be a number above 0"),
        (["emails:many"], "the weight in 'emails:many' must be a number above 0"),
        (["a b"], "'a b' cannot name a queue"),
        (["--suspects", "--burst", "--concurrency", "2"], "until no suspect is left: omit --burst, --concurrency"),
    ],
)
def test_a_worker_that_could_not_work_is_refused_in_one_line(tenure, arguments, says):
    done = tenure("work", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


@pytest.mark.parametrize("option", ["--max", "--processes", "--concurrency"])
def test_a_count_of_zero_is_refused(tenure, option):
    assert tenure("work", option, "0").returncode == 2


def test_a_folder_that_does_not_exist_is_told_in_one_line(tenure):
    done = tenure("work", "--burst", TENURE_URL=f"sqlite:///{tenure.folder}/nowhere/jobs.db")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nowhere' for the database does not exist" in done.stderr


def test_a_file_that_is_no_database_is_told_in_one_line(tenure):
    done = tenure("work", "--burst", TENURE_URL=f"sqlite:///{tenure.folder}/shop.py")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "file is not a database" in done.stderr


def test_logs_may_be_json_with_a_line_for_each_outcome(tenure):
    ids = [tenure.enqueue("add", "--payload", '{"a": 1}'), tenure.enqueue("fail")]
    done = tenure("-v", "--log-format", "json", "work", "--burst", TENURE_EXECUTION_LOG="jobs-%Y.log")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.stdout == ""
    assert {line["job"]: (line["level"], line["status"]) for line in lines if "status" in line} == {
        ids[0]: ("info", "acked"),
        ids[1]: ("critical", "dead-lettered"),
    }
    assert lines[-1]["message"].startswith("Stopped after ")
    (log,) = tenure.folder.glob("jobs-2*.log")
    assert {json.loads(line)["job"] for line in log.read_text().splitlines()} == set(ids)


@pytest.mark.parametrize("command", [("work", "--metrics-port", "0"), ("cron", "work")], ids=["work", "cron"])
def test_every_line_of_a_json_log_is_json_until_the_end(tenure, command):
    process = tenure.start("-v", "--log-format", "json", *command, "--log-file", "all-%Y.log")
    lines = [process.stderr.readline()]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    lines += err.splitlines()
    (log,) = tenure.folder.glob("all-2*.log")
    assert (process.returncode, out) == (0, "")
    for messages in ([json.loads(line)["message"] for line in each] for each in (lines, log.read_text().splitlines())):
        assert len([text for text in messages if text.startswith("Stopping once the running job is done")]) == 1
        assert len([text for text in messages if text.startswith(("Working on", "Running 0 schedules"))]) == 1


def test_what_a_handler_logs_in_a_child_process_is_a_line_of_a_json_log_too(tenure):
    with (tenure.folder / "shop.py").open("a") as shop:
        shop.write('\n\n@app.job\ndef warn() -> None:\n    __import__("logging").warning("low on %s", "paper")\n')
    tenure.enqueue("warn")
    done = tenure("--log-format", "json", "work", "--burst", "--runner", "process")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["level"], line["logger"]) for line in lines if line["message"] == "low on paper"] == [
        ("warning", "root")
    ]


def test_an_error_that_ends_a_command_is_a_line_of_a_json_log_too(tenure):
    done = tenure("work", "no such queue:x", TENURE_LOG_FORMAT="json")
    assert done.returncode == 2
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (line["level"], line["message"][:10]) == ("error", "the weight")


def test_the_format_of_logs_may_be_a_setting(tenure):
    id = tenure.enqueue("fail")
    done = tenure("work", "--burst", TENURE_LOG_FORMAT="json")
    assert [json.loads(line)["job"] for line in done.stderr.splitlines() if id in line] == [id]
