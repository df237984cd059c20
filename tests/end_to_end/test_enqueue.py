"""`tenure enqueue`."""

from datetime import datetime

import pytest


def test_enqueue_prints_the_id(tenure):
    done = tenure("enqueue", "add", "--payload", '{"a": 1}')
    assert done.returncode == 0
    assert tenure.state(done.stdout.strip()) == "ready"


def test_enqueue_takes_every_option_of_a_job(tenure):
    id = tenure.enqueue(
        *("add", "--payload", '{"a": 1, "b": 2}', "--queue", "sums", "--priority", "high", "--delay", "10m"),
        *("--name", "one and two", "--max-retries", "3", "--timeout", "30", "--idempotency-key", "k1"),
    )
    job = tenure.json("jobs", "show", id)
    wanted = {
        "job": "add", "payload": {"a": 1, "b": 2}, "queue": "sums", "priority": 8, "state": "delayed",
        "name": "one and two", "max_retries": 3, "timeout": 30.0, "idempotency_key": "k1",
    }  # fmt: skip
    assert {name: job[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2041-03-01T09:00", "2041-03-01T08:00:00+00:00"),
        ("2041-03-01 09:00 America/New_York", "2041-03-01T14:00:00+00:00"),
        ("2041-03-01T09:00:00Z", "2041-03-01T09:00:00+00:00"),
        ("2245741920", "2041-03-01T09:12:00+00:00"),
    ],
)
def test_at_takes_a_time_in_the_zone_of_the_app(tenure, text, due):
    tenure.environment["TENURE_TIMEZONE"] = "Europe/Madrid"

    job = tenure.json("jobs", "show", tenure.enqueue("add", "--payload", '{"a": 1}', "--at", text))

    assert (job["state"], datetime.fromisoformat(job["due_at"])) == ("delayed", datetime.fromisoformat(due))


def test_at_takes_a_phrase(tenure):
    assert tenure.state(tenure.enqueue("add", "--payload", '{"a": 1}', "--at", "in 2 days")) == "delayed"


def test_a_time_that_cannot_be_read_and_two_starts_are_refused(tenure):
    unread = tenure("enqueue", "add", "--at", "someday")
    both = tenure("enqueue", "add", "--at", "noon", "--delay", "10m")

    assert unread.returncode == both.returncode == 2
    assert "--at 'someday' is not a time; write a datetime" in unread.stderr
    assert "give either --delay TIME or --at TIME" in both.stderr


def test_a_job_that_is_not_started_in_time_expires(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}', "--expires", "1ms")
    assert tenure("work", "--burst").stdout.endswith("0 dead, 1 expired\n")
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["reason"][:11]) == ("expired", "expired at ")
    assert tenure.json("health", "--all")["queues"]["default"]["expired"] == 1


def test_a_handler_class_takes_any_json(tenure):
    id = tenure.enqueue("echo", "--payload", '{"deep": [1, {"x": null}]}')
    assert tenure.json("jobs", "show", id)["payload"] == {"deep": [1, {"x": None}]}


def test_an_alias_of_a_queue_means_the_queue(tenure):
    tenure.environment["TENURE_ALIASES"] = '{"mail": "emails"}'
    assert tenure.json("jobs", "show", tenure.enqueue("fail", "--queue", "mail"))["queue"] == "emails"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "--payload", "{a: 1}"], "--payload is not JSON"),
        (["nonsense"], "no handler is registered under 'nonsense'"),
        (["add", "--payload", '{"a": "one"}'], "Expected `int`, got `str` - at `$.a`"),
        (["add"], "missing required field `a`"),
        (["fail", "--queue", "a b"], "'a b' cannot name a queue"),
        (["fail", "--delay", "soon"], "delay 'soon' is not a duration"),
        (["fail", "--expires", "soon"], "--expires 'soon' is not a duration"),
        (["fail", "--priority", "11"], "priority must be a whole number from 0 to 9"),
        (["fail", "--priority", "urgent"], "priority 'urgent' is unknown"),
        (["fail", "--max-retries", "-1"], "max_retries must be"),
        (["fail", "--timeout", "0"], "timeout must be more than 0"),
    ],
)
def test_a_job_that_could_never_run_is_refused_in_one_line(tenure, arguments, says):
    done = tenure("enqueue", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("Error: ")
    assert says in done.stderr


def test_a_job_that_would_be_gone_at_the_end_of_the_command_is_refused(tenure):
    refused = tenure("enqueue", "add", "--payload", '{"a": 1}', TENURE_URL="memory://")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "'memory://' would be gone when this command ends; use a backend that processes share" in refused.stderr
    assert tenure("enqueue", "add", "--payload", '{"a": 1}', TENURE_URL="sync://").returncode == 0


def test_a_relative_file_name_is_shown_with_its_folder(tenure):
    tenure.environment["TENURE_URL"] = "sqlite:///jobs.db"
    tenure.enqueue("add", "--payload", '{"a": 1}')
    shown = f"sqlite:///{tenure.folder}/jobs.db"
    assert f" at {shown}, worker " in tenure("work", "--burst").stdout
    assert f"{shown} answers" in tenure("doctor").stdout
