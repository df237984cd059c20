"""`tenure explain`, on the embedded database and on servers."""

import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from tenure import Tenure
from tenure.backends.messages import Park
from tenure.backends.records import WorkerRecord
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder, lock_key
from tenure.wire.signing import new_key
from tests.support.waiting import eventually

WORKER = WorkerRecord(
    id="host:1:abc", host="host", pid=1, queues=("default",), runner="process", concurrency=2, started_at=1, seen_at=1
)


def codes(found):
    return [reason["code"] for reason in (found["answer"], *found["also"])]


def test_a_job_that_waits_for_a_lock_is_told_who_holds_it_and_since_when(command_line):
    holder, waiting = [command_line.app.define("hold").single_instance().dispatch() for _ in range(2)]
    leases = command_line.app.backend.lease(["default"], limit=2, seconds=60)
    lock = ConcurrencyLimit(lock_key("hold"))
    command_line.app.backend.guards.change([take_guards([lock], Holder(holder.id, 1, 60.0))])
    command_line.app.backend.parking.park([Park(lease=leases[1], key=lock.key, reason="busy")])
    command_line.app.backend.workers.announce(structs.replace(WORKER, jobs=(holder.id,)), 60)
    found = command_line.json("explain", waiting)
    answer = found["answer"]
    assert (found["state"], codes(found)) == ("parked", ["locked"])
    assert (answer["job"], answer["worker"], answer["since"][:2]) == (holder, WORKER.id, "20")
    told = command_line("explain", waiting).stdout.splitlines()
    assert told[0] == f"{waiting}: hold on queue default, parked"
    assert told[1].startswith(
        f"the single-instance lock 'hold' is held by job {holder} on worker {WORKER.id}, since 20"
    )
    assert "app.guards.unlock('hold')" in told[2]
    assert codes(command_line.json("explain", holder)) == ["running"]


def test_a_delay_a_pause_a_missing_worker_and_what_is_not_deployed_are_told(command_line):
    delayed = command_line.app.define("add", {"a": 1}).delay("1h").dispatch()
    ready = command_line.app.define("fail").dispatch()
    assert codes(command_line.json("explain", ready)) == ["no_worker", "turn"]
    command_line.app.guards.pause("default", "deploy")
    assert codes(command_line.json("explain", delayed)) == ["delayed", "paused", "no_worker"]
    told = command_line("explain", ready).stdout.splitlines()
    assert told[1].startswith("queue 'default' is paused: deploy, since 20")
    command_line.app.backend.workers.announce(WORKER, 60)
    command_line.app.guards.resume("default")
    assert codes(command_line.json("explain", ready)) == ["turn"]
    assert codes(command_line.json("explain", ready, TENURE_APP=""))[0] == "turn"
    assert codes(command_line.json("explain", ready, TENURE_APP="", TENURE_KEYS=new_key().dump()))[0] == "unknown_key"


def test_a_handler_that_is_not_allowed_or_not_there_is_told(command_line):
    id = command_line.app.define("fail").dispatch()
    command_line.app.backend.workers.announce(WORKER, 60)
    strict, empty = command_line.module("Tenure(allow={'default': ('add',)})"), command_line.module("Tenure()")
    found = command_line.json("explain", id, TENURE_APP=strict)
    assert (codes(found)[0], found["answer"]["until"]) == ("forbidden", None)
    found = command_line.json("explain", id, TENURE_APP=empty)
    assert (codes(found)[0], found["answer"]["until"][:2]) == ("unknown_handler", "20")


@pytest.mark.parametrize("guard", ["rate", "breaker"])
def test_a_rate_and_an_open_breaker_are_told_with_their_end(command_line, guard):
    command_line.app.backend.workers.announce(WORKER, 60)
    if guard == "rate":
        command_line.app.guards.rate("1/h", handler="add").throttle()
        id = command_line.app.define("add", {"a": 1}).rate("1/h").dispatch()
    else:
        for _ in range(5):
            with pytest.raises(ValueError), command_line.app.guards.breaker("stripe").closed():  # noqa: PT011
                raise ValueError
        id = command_line.app.define("add", {"a": 1}).breaker("stripe").dispatch()
    answer = command_line.json("explain", id)["answer"]
    assert answer["code"] == {"rate": "rate_limited", "breaker": "circuit_open"}[guard]
    assert answer["until"][:2] == "20"


def test_a_dead_job_is_told_with_each_attempt_and_a_done_one_too(command_line):
    dead, done = command_line.app.define("stumble").dispatch(), command_line.app.define("add", {"a": 1}).dispatch()
    command_line.work()
    told = command_line("explain", dead).stdout.splitlines()
    assert told[1].startswith("it is dead: all allowed attempts failed (retries_exhausted), since 20")
    assert [line.rpartition(": ValueError")[2] for line in told[-2:]] == [": twice", ": twice"]
    assert [each["attempt"] for each in command_line.json("explain", dead)["attempts"]] == [1, 2]
    (attempt,) = command_line.json("explain", done)["attempts"]
    assert (attempt["attempt"], attempt["error"], attempt["seconds"] is None) == (1, None, False)


def test_a_job_that_has_just_started_raises_no_alarm(command_line):
    with working(command_line.app, release="released"):
        id = command_line.app.define("hold").dispatch()
        eventually(Path("started").exists)
        told = command_line("explain", id).stdout.splitlines()
    assert re.match(r"it is running, or about to start(, on worker \S+)?; it is leased until 20", told[1])
    assert len(told) == 2


def test_a_tick_that_waits_for_another_is_told_for_which(command_line):
    command_line.app.schedule(command_line.app.define("add", {"a": 1}).build()).every_minute().named("load")
    command_line.app.schedule(command_line.app.define("add", {"a": 2}).build()).every_minute().named(
        "report"
    ).depends_on("load")
    ran = {each.schedule.name: each.record for each in command_line.app.cron.run()}
    found = command_line.json("explain", ran["report"].id)
    assert (found["state"], found["schedule"], codes(found)) == ("waiting", "report", ["dependency"])
    assert "waits for 'load'" in found["answer"]["text"]
    assert command_line("explain", ran["report"].id).exit_code == 0


def test_a_job_that_is_not_known_is_refused(command_line):
    missing = command_line("explain", "nobody")
    assert (missing.exit_code, "no job 'nobody' is known here" in missing.stderr) == (2, True)


@pytest.mark.parametrize("command_line", ["sqlite"], indirect=True)
def test_a_handler_that_the_workers_do_not_have_is_told_without_the_app(command_line):
    with Tenure() as newer:
        newer.job(name="new_one")(lambda: None)
        id = newer.define("new_one").dispatch()
    command_line.app.guards.pause("default")  # so that it is not taken and put off meanwhile
    with working(command_line.app):
        found = command_line.json("explain", id, TENURE_APP="")
        assert "not_deployed" in codes(found)
        assert "new_one (1 waiting)" in command_line("doctor", TENURE_APP="").stdout


@contextmanager
def working(app, release=None):
    """A worker of this app, once others see it; `release` is a file that lets its jobs end."""
    worker = app.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    eventually(app.backend.workers.alive)
    try:
        yield
    finally:
        if release:
            Path(release).touch()
        worker.stop()
        thread.join()
