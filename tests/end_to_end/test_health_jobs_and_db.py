"""`tenure health`, `tenure jobs`, `tenure db` and `tenure key`."""

import re
import sqlite3
from datetime import datetime

import pytest

from tenure.backends.sql.migrations import newest, steps

STATES = ["ready", "delayed", "parked", "leased", "dead"]
VERSION = newest("sqlite")


@pytest.fixture
def database(tenure):
    tenure("db", "migrate")
    connection = sqlite3.connect(tenure.folder / "jobs.db", isolation_level=None)
    yield connection
    connection.close()


def test_health_counts_jobs_per_queue_and_state(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure.enqueue("fail", "--queue", "emails")
    tenure.enqueue("fail", "--queue", "emails", "--delay", "1h")
    tenure("work", "emails", "--burst")
    found = tenure.json("health")
    assert found["backend"] == f"sqlite:///{tenure.folder}/jobs.db"
    assert found["schema"] == {"stored": VERSION, "needed": VERSION}
    assert found["queues"] == {
        "default": {**dict.fromkeys(STATES, 0), "ready": 1},
        "emails": {**dict.fromkeys(STATES, 0), "delayed": 1, "dead": 1},
    }


def test_health_tells_how_the_last_day_went(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure.enqueue("fail", "--queue", "emails")
    tenure("work", "default", "emails", "--burst")
    found = tenure.json("health")
    assert [(each["name"], each["done"], each["dead"]) for each in found["by_queue"]] == [
        ("default", 1, 0),
        ("emails", 0, 1),
    ]
    assert [(each["name"], each["done"]) for each in found["by_handler"]] == [("add", 1), ("fail", 0)]
    assert 0 < found["by_handler"][0]["run"]["p50"] < 60
    shown = tenure("health", "--last", "1h").stdout
    assert "last 1h:" in shown
    assert re.search(r"^fail\t0\t1\t0\t1\t0\t", shown, re.MULTILINE)


def test_health_counts_what_ended_well_when_asked(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("work", "--burst")
    assert tenure.json("health")["queues"] == {}
    assert tenure.json("health", "--all")["queues"]["default"]["done"] == 1


def test_health_is_tab_separated_when_nobody_looks(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    _, header, row = tenure("health").stdout.splitlines()
    assert header.split("\t") == ["queue", *STATES]
    assert row.split("\t") == ["default", "1", *["0"] * 4]


def test_health_is_a_table_when_forced(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    printed = tenure("health", FORCE_COLOR="1").stdout
    assert "\x1b[1m" in printed
    assert "\t" not in printed


def test_looking_where_no_database_is_creates_none(tenure):
    before = set(tenure.folder.iterdir())
    done = tenure("health")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no database at" in done.stderr
    assert {path.suffix for path in set(tenure.folder.iterdir()) - before} <= {""}  # at most a __pycache__


def test_health_of_a_fresh_database_says_that_there_are_no_jobs(tenure):
    tenure("db", "migrate")
    assert tenure("health").stdout.splitlines()[1] == "no jobs waiting, running or dead"


def test_health_of_a_backend_without_counts_says_so(tenure):
    assert "this backend does not count jobs" in tenure("health", TENURE_URL="sync://").stdout
    nothing = {"schema": None, "facts": [], "queues": None, "signals": None, "last": "24h"}
    nothing |= {"rates": [], "by_queue": None, "by_handler": None}
    assert tenure.json("health", TENURE_URL="sync://") == {"backend": "sync://", **nothing}


def test_a_database_of_a_newer_release_is_refused_in_one_line(tenure, database):
    database.execute("UPDATE tenure_schema SET version = 999")
    done = tenure("health")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has schema version 999" in done.stderr
    assert "upgrade Tenure" in done.stderr


def test_a_job_is_shown_with_its_envelope_and_every_failure(tenure):
    id = tenure.enqueue("stumble", "--name", "tripper")
    tenure("work", "--burst")
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["name"], job["payload"], job["max_retries"], job["fence"]) == (
        "dead",
        "tripper",
        {},
        1,
        2,
    )
    assert [(each["attempt"], each["type"], each["message"]) for each in job["failures"]] == [
        (1, "ValueError", "twice"),
        (2, "ValueError", "twice"),
    ]


def test_times_in_json_are_utc(tenure):
    job = tenure.json("jobs", "show", tenure.enqueue("fail"), TZ="Asia/Tokyo")
    assert job["enqueued_at"].endswith("Z")
    assert datetime.fromisoformat(job["enqueued_at"]).utcoffset().total_seconds() == 0


def test_times_for_people_are_local(tenure):
    shown = tenure("jobs", "show", tenure.enqueue("fail"), TZ="Asia/Tokyo").stdout
    assert re.search(r"^enqueued_at: .*\+09:00$", shown, re.MULTILINE)


def test_a_finished_job_is_shown_with_its_payload_and_its_last_run(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("work", "--burst")
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["output"], job["payload"], job["unreadable"]) == ("done", "2", {"a": 1}, None)
    assert job["run"]["worker"].count(":") == 2
    assert job["run"]["started"].endswith("Z")
    shown = tenure("jobs", "show", id).stdout
    assert re.search(r"^run: +waited .*s, ran .* [mµ]s, cpu .* [mµ]s, peak \d+ MB, on ", shown, re.MULTILINE)


def test_a_payload_past_its_age_is_shown_as_expired(tenure, database):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("work", "--burst")
    database.execute("UPDATE tenure_outcome SET finished = finished - 2 * 86400000000")
    assert "payloads 1" in tenure("clean").stdout
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["payload"], job["output"]) == ("done", "expired", "2")
    assert "no longer kept" in job["unreadable"]


def test_a_job_that_is_forgotten_has_neither_payload_nor_result(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("work", "--burst")
    assert tenure("jobs", "forget", id).stdout == f"{id} has no payload and no result any more\n"
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["payload"], job["output"]) == ("done", "expired", None)


def test_only_ended_jobs_can_be_forgotten(tenure):
    waiting, dead = tenure.enqueue("note", "--queue", "mail"), tenure.enqueue("fail")
    tenure("work", "--burst")
    refused = tenure("jobs", "forget", waiting, dead, "nothing")
    assert refused.returncode == 2
    assert f"job {waiting!r} is ready; only ended jobs can be forgotten" in refused.stderr
    assert f"job {dead!r} is dead; purge it with `tenure dead purge`" in refused.stderr
    assert "no job 'nothing' is known here" in refused.stderr


def test_a_job_whose_body_cannot_be_opened_is_still_shown(tenure, database):
    id = tenure.enqueue("fail")
    database.execute("UPDATE tenure_job SET body = x'00ff'")
    job = tenure.json("jobs", "show", id)
    assert (job["state"], job["payload"]) == ("ready", None)
    assert job["unreadable"].startswith("Malformed: ")
    assert "Malformed" in tenure("jobs", "show", id).stdout


def test_a_job_is_shown_to_people_with_its_last_traceback(tenure):
    id = tenure.enqueue("fail")
    tenure("work", "--burst")
    shown = tenure("jobs", "show", id).stdout
    assert re.search(r"^state: +dead$", shown, re.MULTILINE)
    assert re.search(
        r"^attempt 1 at .* \(waited .*, ran .*\): ValueError: no luck \(.*shop.py:\d+\)$", shown, re.MULTILINE
    )
    assert shown.endswith("ValueError: no luck\n")


def test_an_unknown_id_is_refused_in_one_line(tenure):
    tenure("db", "migrate")
    done = tenure("jobs", "show", "nonsense")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no job 'nonsense' is known" in done.stderr


def test_migrate_says_what_it_did_and_then_that_nothing_is_left(tenure):
    applied = "".join(f"applied {name}\n" for _, name, _ in steps("sqlite"))
    assert tenure("db", "migrate").stdout == f"{applied}up to date: schema version {VERSION}\n"
    assert tenure("db", "migrate").stdout == f"up to date: schema version {VERSION}\n"


def test_migrate_refuses_a_backend_without_a_schema(tenure):
    done = tenure("db", "migrate", TENURE_URL="memory://")
    assert (done.returncode, done.stderr) == (2, "Error: the backend 'memory://' has no schema to migrate\n")


def test_the_printed_sql_makes_a_database_that_is_up_to_date(tenure):
    connection = sqlite3.connect(tenure.folder / "jobs.db")
    connection.executescript(tenure("db", "sql").stdout)
    connection.close()
    assert tenure("db", "migrate").stdout == f"up to date: schema version {VERSION}\n"
    assert tenure.state(tenure.enqueue("fail")) == "ready"


def test_a_new_key_is_one_line_that_signs(tenure):
    done = tenure("key", "new", "--kid", "spring")
    assert done.stdout.startswith("spring:")
    assert done.stdout.count("\n") == 1
    assert "TENURE_KEYS" in done.stderr
    tenure.environment["TENURE_KEYS"] = done.stdout.strip()
    assert tenure.json("jobs", "show", tenure.enqueue("fail"))["kid"] == "spring"


def test_a_key_name_with_a_space_is_refused_in_one_line(tenure):
    done = tenure("key", "new", "--kid", "a b")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_health_shows_how_much_of_a_rate_is_used(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    assert tenure("work", "--burst", TENURE_RATES='{"default": "1/h"}').returncode == 0
    [rate] = tenure.json("health", TENURE_RATES='{"default": "1/h"}')["rates"]
    assert (rate["queue"], rate["used"], rate["burst"]) == ("default", 1, 1)
    assert "rate of default: 1/h, 1 of 1 used" in tenure("health", TENURE_RATES='{"default": "1/h"}').stdout


def test_url_outranks_the_app_in_the_command_and_in_its_child_processes(tenure):
    """The app names a database in its code; a job that runs in a child process enqueues another one."""
    (tenure.folder / "shop.py").write_text(TWO_DATABASES)
    other = f"sqlite:///{tenure.folder}/other.db"
    assert tenure("enqueue", "first", "--url", other).returncode == 0
    assert tenure("work", "--burst", "--processes", "1", "--url", other).returncode == 0
    ended = [(job["job"], job["state"]) for job in tenure.json("jobs", "list", "--url", other)]
    assert sorted(ended) == [("first", "done"), ("second", "done")]
    assert not (tenure.folder / "coded.db").exists()


TWO_DATABASES = """
from tenure import Tenure
app = Tenure("sqlite:///coded.db")
@app.job
def second(): pass
@app.job
def first(): second.enqueue()
"""


def test_url_names_a_backend_of_the_settings(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    named = f'{{"main": "sqlite:///{tenure.folder}/jobs.db"}}'
    given = {"TENURE_URL": "sqlite:///elsewhere.db", "TENURE_BACKENDS": named}
    assert "default\t1" in tenure("health", "--url", "main", **given).stdout
    wrong = tenure("health", "--url", "nowhere", **given)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "no backend for the URL 'nowhere'" in wrong.stderr
