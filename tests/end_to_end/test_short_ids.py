"""Commands accept any start of an id that only one job has."""

import pytest

embedded = pytest.mark.parametrize("command_line", ["sqlite"], indirect=True)


@pytest.fixture
def ended(command_line):
    """The ids of a job that is done and of one that is dead."""
    ids = command_line.app.define("add", {"a": 1}).dispatch(), command_line.app.define("fail", {}).dispatch()
    command_line.work()
    return ids


def test_a_job_is_shown_and_explained_by_the_id_that_lists_show(command_line, ended):
    done, dead = ended
    assert command_line.json("jobs", "show", done[:18])["id"] == done
    assert command_line.json("explain", dead[:18])["id"] == dead
    assert command_line.json("dead", "show", dead[:18])["id"] == dead


@embedded
def test_waiting_jobs_are_rescheduled_and_cancelled_by_a_short_id(command_line):
    id = command_line.app.define("add", {"a": 1}).dispatch()
    assert command_line.json("jobs", "reschedule", id[:18], "--delay", "1h") == {id: "rescheduled"}
    assert command_line.json("jobs", "cancel", id[:18], id) == {id: "cancelled"}


@embedded
def test_ended_jobs_are_forgotten_replayed_and_purged_by_a_short_id(command_line, ended):
    done, dead = ended
    assert command_line.json("jobs", "forget", done[:18]) == {done: "forgotten"}
    assert command_line.json("dead", "replay", dead[:18], "--dry-run")["would_replay"] == 1
    assert command_line.json("jobs", "retry", dead[:18]) == {"retried": [dead]}
    command_line.work()
    assert dead in command_line("dead", "export", dead[:18]).stdout
    assert command_line.json("dead", "purge", dead[:18], "--force") == {"purged": 1, "missing": []}


@embedded
def test_a_start_that_several_ids_have_is_refused_with_the_jobs_that_have_it(command_line):
    for name in ("order-17", "order-18"):
        command_line.app.define("add", {"a": 1}).options(id=name).dispatch()
    refused = command_line("jobs", "show", "order-1")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: several ids start with 'order-1': order-17 (ready, add, ")
    assert "order-18 (ready, add, " in refused.stderr
    assert command_line.json("jobs", "show", "order-17")["id"] == "order-17"


@embedded
def test_an_id_that_is_the_start_of_another_names_itself(command_line):
    for name in ("order-1", "order-17"):
        command_line.app.define("add", {"a": 1}).options(id=name).dispatch()
    assert command_line.json("jobs", "show", "order-1")["id"] == "order-1"


@embedded
def test_a_start_that_no_id_has_is_refused(command_line):
    refused = command_line("jobs", "show", "019a9250-7c3e")
    assert (refused.exit_code, refused.stderr.partition(";")[0]) == (2, "Error: no job '019a9250-7c3e' is known here")
