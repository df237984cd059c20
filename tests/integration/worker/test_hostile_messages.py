"""Hostile bytes in a queue: none runs, none is lost, and the worker goes on."""

from collections.abc import Iterator

import pytest

from tenure import Tenure
from tenure.backends.messages import Message
from tenure.testing import FakeClock, run_due
from tenure.wire.envelope import Wire
from tenure.wire.signing import Key, Ring
from tests.support.hostile_messages import QUEUE, hostile

OURS, THEIRS = Key("k1", bytes(range(32))), Key("k1", bytes(range(32, 64)))
BACKENDS = {"memory": None, "sqlite": None, "postgresql": "postgres_url", "redis": "redis_url"}
CORPUS = hostile(Wire(Ring([OURS])), Wire(Ring([THEIRS])))


@pytest.fixture(params=BACKENDS)
def url(request, tmp_path) -> str:
    fixture = BACKENDS[request.param]
    if fixture is not None:
        return request.getfixturevalue(fixture)
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}[request.param]


@pytest.fixture
def app(url) -> Iterator[Tenure]:
    with Tenure(url, clock=FakeClock(), keys=[OURS.dump()]) as app:
        app.ran = []

        @app.job(queue=QUEUE)
        def greet(name: str) -> None:
            app.ran.append(name)

        @app.job(queue=QUEUE)
        def other(name: str = "") -> None:
            app.ran.append("other")

        yield app


def raw(number: int, body: bytes) -> Message:
    return Message(id=f"00000000-0000-7000-8000-{number:012d}", queue=QUEUE, body=body, handler="greet")


def test_no_hostile_message_runs_or_is_lost_and_the_good_ones_between_them_run(app):
    stored = {raw(number, body).id: name for number, (name, body) in enumerate(CORPUS.items())}
    for number, body in enumerate(CORPUS.values()):
        app.backend.put([raw(number, body)])
        if number % 10 == 0:
            app.define("greet", {"name": f"good {number}"}).dispatch()

    tally = run_due(app, QUEUE)

    dead = {stored[record.id]: record for record in app.backend.dead_letters.page(limit=1000)}
    assert app.ran == [f"good {number}" for number in range(0, len(CORPUS), 10)]
    assert (tally["rejected"], tally["acked"]) == (len(dead), len(app.ran))
    assert {name: record.body for name, record in dead.items()} == {name: CORPUS[name] for name in dead}
    assert all(record.reason and len(record.failures) == 1 for record in dead.values())
    waiting = [name for id, name in stored.items() if app.backend.jobs.find(id).state == "delayed"]
    assert {*dead, *waiting} == {*CORPUS}
    assert all("kid" in name or "version" in name or "rubbish" in name for name in waiting), waiting


def test_every_byte_of_a_stored_message_is_guarded(app):
    id = app.define("greet", {"name": "Ada"}).dispatch()
    body = app.backend.jobs.find(id).body
    flipped = [body[:at] + bytes([byte ^ 0x20]) + body[at + 1 :] for at, byte in enumerate(body)]
    app.backend.put([raw(number, each) for number, each in enumerate(flipped)])

    tally = run_due(app, QUEUE)

    assert app.ran == ["Ada"]
    assert tally["acked"] == 1
    delayed = [
        number for number, body in enumerate(flipped) if app.backend.jobs.find(raw(number, body).id).state != "dead"
    ]
    assert len(delayed) + tally["rejected"] == len(flipped)
    at = body.index(b'k1"')
    assert {at, at + 1, at + 2} >= {*delayed}  # the name of a key that may be on its way
    assert not any("stored as" in record.failures[-1].message for record in app.backend.dead_letters.page(limit=10_000))


def test_a_message_that_ran_is_not_run_again_under_its_id_or_another(app):
    id = app.define("greet", {"name": "Ada"}).dispatch()
    body = app.backend.jobs.find(id).body
    run_due(app, QUEUE)

    again = Message(id=id, queue=QUEUE, body=body, handler="greet")
    app.backend.put([again, raw(1, body)])
    run_due(app, QUEUE)

    assert app.ran == ["Ada"]


def test_what_is_told_and_counted_of_hostile_messages_holds_nothing_of_them(app, caplog):
    told = []
    app.listen(told.append)
    bodies = [b'{"v":1,"kid":"k1","password":"CANARY"}', b"CANARY" * 1000, b'{"v":1,"kid":"k1' + b"CANARY" * 100]
    app.backend.put([raw(number, body) for number, body in enumerate(bodies)])

    run_due(app, QUEUE)

    assert "CANARYCANARY" not in caplog.text + repr(told) + repr(app.metrics.snapshot())
    assert len([record for record in caplog.records if record.levelname == "CRITICAL"]) >= 2
