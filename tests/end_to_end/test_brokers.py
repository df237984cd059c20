"""Commands on a broker, which cannot find a job by its id."""

import pytest

pytestmark = pytest.mark.parametrize("command_line", ["beanstalk"], indirect=True)


def test_a_dead_letter_is_explained_and_no_other_job(command_line):
    dead, waiting = (
        command_line.app.define("fail").dispatch(),
        command_line.app.define("add", {"a": 1}).delay("1h").dispatch(),
    )
    command_line.work()
    found = command_line.json("explain", dead)
    assert (found["answer"]["code"], [each["error"] for each in found["attempts"]]) == ("dead", ["ValueError: no luck"])
    missing = command_line("explain", waiting)
    assert (missing.exit_code, f"no job {waiting!r} is known here" in missing.stderr) == (2, True)
    refused = command_line("jobs", "reschedule", waiting, "--delay", "0")
    assert (refused.exit_code, "cannot reschedule jobs: it cannot find a job by its id" in refused.stderr) == (2, True)


def test_the_doctor_checks_what_a_broker_tells(command_line):
    said = {each["check"]: each["verdict"] for each in command_line.json("doctor")["checks"]}
    assert (said["backend"], said["clock"], said["stopping"]) == ("ok", "ok", "ok")
    assert said["durability"] in ("ok", "warning")
    nothing = {"schema", "indexes", "eviction", "wake-ups", "sqlite", "keys", "payloads"}
    assert {said[check] for check in nothing} == {"not applicable"}
    assert {said[check] for check in ("workers", "dead letters")} == {"ok"}, "the store beside the broker is read"
