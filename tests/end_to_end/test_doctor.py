"""`tenure doctor`, on the embedded database and on servers."""

import pytest

from tenure import Tenure
from tenure.backends.messages import Message
from tenure.backends.records import WorkerRecord
from tenure.definition.job import new_id
from tenure.wire.signing import new_key


def verdicts(found):
    return {each["check"]: each["verdict"] for each in found["checks"]}


@pytest.fixture
def worker(command_line):
    """Somebody who serves the usual queue."""
    described = {"id": "host:1:a", "host": "host", "pid": 1, "queues": ("default",), "runner": "process"}
    now = command_line.app.clock.now()
    command_line.app.backend.workers.announce(WorkerRecord(**described, concurrency=2, started_at=1, seen_at=now), 60)


@pytest.fixture
def on(command_line):
    return command_line.app.settings.url.partition(":")[0]


def test_a_system_that_is_well_has_no_problems(command_line, worker, on):
    command_line.app.define("add", {"a": 1}).dispatch()
    found = command_line.json("doctor")
    said = verdicts(found)
    ok = {"backend", "clock", "stopping", "keys", "payloads", "workers", "dead letters"}
    assert {said[check] for check in ok} == {"ok"}
    assert [each["text"] for each in found["checks"] if each["check"] == "keys"] == [
        "all messages that wait were sealed with 'usual'"
    ]
    assert said["indexes"] == said["schema"] == ("not applicable" if on == "redis" else "ok")
    assert said["wake-ups"] == ("not applicable" if on == "sqlite" else "ok")
    assert said["eviction"] == ("ok" if on == "redis" else "not applicable")
    assert (said["sqlite"] == "not applicable") == (on != "sqlite")
    assert found["problems"] == sum(verdict == "problem" for verdict in said.values())


def test_people_read_a_line_a_check_and_the_exit_code_tells(command_line):
    command_line.app.define("add", {"a": 1}).dispatch()
    told = command_line("doctor")
    assert "\nwarning  workers       no worker listens on default (1 ready)\n" in told.stdout
    assert "`tenure work default`" in told.stdout
    assert told.stdout.splitlines()[-1].startswith("problems: 0, warnings: ")
    assert (told.exit_code, "\x1b" in told.stdout) == (0, False)
    assert command_line("doctor", "--strict").exit_code == 1


def test_messages_without_a_signature_or_with_another_key_are_found(command_line, worker):
    command_line.app.define("add", {"a": 1}).dispatch()
    other = new_key("other").dump()
    found = command_line.json("doctor", exit_code=1, TENURE_APP="", TENURE_KEYS=other)
    assert "not in the ring: 1 by 'usual'" in {each["check"]: each["text"] for each in found["checks"]}["keys"]
    rotated = f"{other},{command_line.app.settings.keys[0]}"
    assert verdicts(command_line.json("doctor", TENURE_APP="", TENURE_KEYS=rotated))["keys"] == "warning"
    forged = Message(id=new_id(), queue="default", body=b'{"job":"add"}', handler="add")
    command_line.app.backend.put([forged])
    found = command_line.json("doctor", exit_code=1)
    assert {"keys": "problem", "payloads": "problem"}.items() <= verdicts(found).items()


def test_payloads_that_no_handler_accepts_are_found(command_line, worker):
    with Tenure() as newer:
        newer.job(name="add", payload_version=2, upcasters={1: dict})(lambda a: a)
        id = newer.define("add", {"a": 1}).dispatch()
    found = command_line.json("doctor", exit_code=1)
    (payloads,) = [each for each in found["checks"] if each["check"] == "payloads"]
    assert (payloads["verdict"], payloads["text"]) == (
        "problem",
        "of 1 waiting jobs, this app cannot run 1 of 'add' (newer_payload)",
    )
    assert payloads["advice"].endswith(f"`tenure explain {id}` explains one of them")


def test_schedules_that_nobody_keeps_are_found(command_line, worker):
    command_line.app.schedule(command_line.app.define("add", {"a": 1}).build()).every_minute().named("load")
    assert verdicts(command_line.json("doctor", exit_code=1))["schedules"] == "problem"
    command_line.app.cron.run()
    assert verdicts(command_line.json("doctor"))["schedules"] == "ok"


def test_dead_letters_that_grow_are_found(command_line, worker):
    command_line.app.enqueue_many(command_line.app.define("fail").build() for _ in range(12))
    command_line.work()
    found = command_line.json("doctor")
    (dead,) = [each for each in found["checks"] if each["check"] == "dead letters"]
    assert (dead["verdict"], dead["text"][:49]) == ("warning", "their number grows: 12 dead letters; 12 died in t")


@pytest.mark.parametrize("command_line", ["sqlite", "postgresql"], indirect=True)
def test_an_index_that_is_gone_is_found(command_line, worker):
    dialect = command_line.app.backend.inner._dialect
    with dialect.migration() as rows:
        rows("DROP INDEX tenure_dead_died", {})
    found = command_line.json("doctor", exit_code=1)
    (indexes,) = [each for each in found["checks"] if each["check"] == "indexes"]
    assert indexes["text"].startswith("missing, or not valid: tenure_dead_died;")


def test_a_server_that_is_not_there_is_a_problem(command_line):
    gone = {"TENURE_APP": "", "TENURE_URL": "redis://127.0.0.1:1"}
    found = command_line.json("doctor", exit_code=1, **gone)
    assert [each["check"] for each in found["checks"]] == ["backend"]
    told = command_line("doctor", **gone)
    assert (told.exit_code, told.stdout.startswith("problem  backend")) == (1, True)


def test_a_key_file_that_others_can_read_is_a_problem_and_commands_refuse_it_in_one_line(tenure):
    tenure("db", "migrate")
    key_file = tenure.folder / "jobs.db.key"
    key_file.chmod(0o666)

    done = tenure("health")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"Error: the key file '{key_file}' cannot be trusted: every user can write to")

    found = tenure("doctor")
    assert (found.returncode, "problem  key file" in found.stdout) == (1, True)


def test_the_url_override_replaces_the_url_in_the_code_for_every_process_and_is_shown(tenure):
    shop = (tenure.folder / "shop.py").read_text().replace("Tenure()", 'Tenure("sqlite:///prod.db")')
    (tenure.folder / "shop.py").write_text(shop)
    override = {"TENURE_URL_OVERRIDE": f"sqlite:///{tenure.folder}/test.db"}

    tenure("enqueue", "add", "--payload", '{"a": 1}', **override)
    assert "1 done" in tenure("work", "--burst", **override).stdout
    assert not (tenure.folder / "prod.db").exists()

    shown = tenure("doctor", **override).stdout
    assert f"sqlite:///{tenure.folder}/test.db answers; TENURE_URL_OVERRIDE replaces the URL of the app" in shown
