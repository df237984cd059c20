"""`tenure queues`, `tenure reap` and `tenure clean`."""

import sqlite3


def test_queues_are_listed_with_what_is_there_and_why_they_are_paused(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure.enqueue("fail", "--queue", "mail", "--delay", "1h")
    assert tenure("queues", "pause", "mail", "--reason", "provider down").stdout == "mail paused\n"
    assert tenure("queues", "pause", "mail").stdout == "mail was paused before\n"
    default, mail, _ = tenure.json("queues", "list")
    assert (default["queue"], default["ready"], default["paused_since"]) == ("default", 1, None)
    assert (mail["queue"], mail["delayed"], mail["reason"]) == ("mail", 1, "provider down")
    assert mail["paused_since"].endswith("Z")
    header, *rows = tenure("queues", "list").stdout.splitlines()
    assert header.split("\t")[:2] == ["queue", "ready"]
    assert [row.split("\t")[0] for row in rows] == ["default", "mail", "priority"]


def test_a_paused_queue_waits_until_it_is_resumed(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("queues", "pause", "default")
    assert tenure("work", "--burst").returncode == 0
    assert tenure.state(id) == "ready"
    assert tenure("queues", "resume", "default").stdout == "default resumed\n"
    assert tenure("queues", "resume", "default").stdout == "default was not paused\n"
    tenure("work", "--burst")
    assert tenure.state(id) == "done"


def test_draining_waits_for_what_is_ready_and_gives_up_in_time(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    done = tenure("queues", "drain", "default", "--timeout", "0.3")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "1 jobs are left after 0.3 s" in done.stderr
    tenure("work", "--burst")
    assert tenure("queues", "drain", "default").stdout == "default: nothing left\n"


def test_draining_a_paused_queue_waits_only_for_what_runs(tenure):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure("queues", "pause", "default")
    assert tenure("queues", "drain", "default", "--timeout", "5").returncode == 0


def test_reaping_returns_what_expired_and_says_so(tenure):
    id = tenure.enqueue("add", "--payload", '{"a": 1}')
    assert tenure("reap").stdout == "no lease has expired\n"
    with sqlite3.connect(tenure.folder / "jobs.db") as database:
        database.execute(
            "INSERT INTO tenure_lease SELECT key, queue, rank, 0, 0, 1, 0, 'ghost', 1, 0, NULL, NULL FROM tenure_ready"
        )
        database.execute("DELETE FROM tenure_ready")
    database.close()
    assert tenure.state(id) == "leased"
    assert tenure("reap").stdout == "default: 1 jobs returned, 0 of them charged with a crash\n"
    assert tenure.state(id) == "ready"


def test_reaping_tells_programs_which(tenure):
    tenure("db", "migrate")
    assert tenure.json("reap", "mail") == []


def test_cleaning_deletes_what_is_past_its_retention_and_counts_each_kind(tenure):
    id, leased = tenure.enqueue("add", "--payload", '{"a": 1}'), tenure.enqueue("note", "--queue", "mail")
    tenure("work", "--burst")
    found = tenure.json("clean")
    assert (found["deleted"], found["expired_leases"], set(found["kinds"].values())) == (0, 0, {0})
    with sqlite3.connect(tenure.folder / "jobs.db") as database:
        database.execute("UPDATE tenure_outcome SET finished = 1")
        database.execute("INSERT INTO tenure_audit (id, at, record) VALUES ('a', 1, '{}')")
        database.execute("INSERT INTO tenure_worker (id, expires, record) VALUES ('host:1', 1, '{}')")
        database.execute(
            "INSERT INTO tenure_lease SELECT key, queue, rank, 0, 0, 1, 0, 'ghost', 1, 0, NULL, NULL FROM tenure_ready"
        )
        database.execute("DELETE FROM tenure_ready")
    database.close()
    assert tenure("clean").stdout.splitlines() == [
        "deleted 3 records that were past their retention: done 1, audit 1, dead workers 1",
        "returned 1 jobs whose lease had expired to their queues",
    ]
    assert "no job" in tenure("jobs", "show", id).stderr
    assert tenure.state(leased) == "ready"
