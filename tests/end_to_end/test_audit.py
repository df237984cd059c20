"""`tenure audit`: what users did, with its filters, for people and for programs."""

from tenure.backends.records import AuditRecord
from tenure.clock import MICROSECOND
from tenure.definition.job import new_id


def save(app, **fields):
    given = {"at": app.clock.now(), "actor": "ada", "action": "queue.pause", "target": "emails", **fields}
    app.parts().audit.save(AuditRecord(id=new_id(), **given))


def test_the_log_is_listed_with_the_newest_first(command_line):
    save(command_line.app, why="migration", counts={"paused": 1})
    save(command_line.app, actor="bob", action="jobs.cancel", target="state=ready", counts={"cancelled": 3}, total=5)

    header, newest, oldest = command_line("audit").stdout.splitlines()
    found = command_line.json("audit")

    assert header.split("\t")[:5] == ["at", "user", "action", "target", "result"]
    assert newest.split("\t")[1:5] == ["bob", "jobs.cancel", "state=ready", "3 cancelled of 5"]
    assert "migration" in oldest
    assert (found[0]["user"], found[0]["counts"], found[0]["state"]) == ("bob", {"cancelled": 3}, "done")
    assert found[1]["at"].endswith("Z")


def test_the_log_is_filtered_and_cut(command_line):
    day = 86_400 * MICROSECOND
    save(command_line.app, actor="eve", at=command_line.app.clock.now() - 2 * day)
    save(command_line.app, actor="bob", action="queue.resume")
    save(command_line.app, actor="bob", action="jobs.cancel")

    def users(*options):
        return [(row["user"], row["action"]) for row in command_line.json("audit", *options)]

    assert users("--user", "bob", "--action", "queue.") == [("bob", "queue.resume")]
    assert users("--newer-than", "24h") == [("bob", "jobs.cancel"), ("bob", "queue.resume")]
    cut = command_line("audit", "--limit", "1")
    assert (len(cut.stdout.splitlines()), "there are more" in cut.stderr) == (2, True)
    assert command_line("audit", "--user", "nobody").stdout == "the audit log has no such record\n"


def test_a_command_that_changes_something_appears_in_the_log(command_line):
    command_line.app.define("add", {"a": 1}).dispatch()
    command_line("queues", "pause", "default", "--reason", "deploy")

    (found,) = command_line.json("audit")

    assert (found["action"], found["target"], found["origin"]) == ("queue.pause", "default", "cli")


def test_an_empty_log_and_a_wrong_time_are_told(command_line):
    assert command_line("audit").stdout == "the audit log is empty\n"
    assert command_line("audit", "--newer-than", "yesterday").exit_code == 2
