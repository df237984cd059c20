"""At the door: what was forged, tampered with or moved is quarantined with its reason and never runs."""

import logging

import pytest

from tenure import Job, Tenure
from tenure.testing import run_due


@pytest.fixture
def ran(app):
    ran = []

    @app.job(queue="mail")
    def greet(name: str):
        ran.append(name)

    return ran


@pytest.fixture
def sealed(app, ran):
    """The bytes of a good message, taken from its queue."""
    id = app.enqueue(Job(handler="greet", payload={"name": "Ada"}, queue="mail"))
    (lease,) = app.backend.lease(["mail"], limit=1, seconds=60)
    assert lease.id == id
    return lease.body


def flip(sealed, position):
    return sealed[:position] + bytes([sealed[position] ^ 1]) + sealed[position + 1 :]


BROKEN = {
    "tampered payload": (lambda sealed: sealed.replace(b"Ada", b"Eve"), "bad_signature"),
    "raised priority": (lambda sealed: sealed.replace(b'"priority":5', b'"priority":9'), "bad_signature"),
    "flipped signature": (lambda sealed: flip(sealed, -10), "bad_signature"),
    "unsigned": (lambda sealed: sealed[: sealed.index(b',"_sig"')] + b"}", "bad_signature"),
    "cut short": (lambda sealed: sealed[:-1], "bad_signature"),
    "empty": (lambda sealed: b"", "malformed"),
    "not JSON": (lambda sealed: b"\x00\xff", "malformed"),
    "too deep": (lambda sealed: b"[" * 100_000, "malformed"),
    "too large": (lambda sealed: sealed + b" " * 300_000, "malformed"),
}


@pytest.mark.parametrize(("change", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_message_is_quarantined_with_its_bytes_and_reason(app, ran, sealed, message, change, reason, caplog):
    app.backend.put([message(1, body=change(sealed))])
    with caplog.at_level(logging.CRITICAL):
        assert run_due(app, "mail") == {"rejected": 1}
    (record,) = app.backend.dead()
    assert (record.reason, record.body, record.attempts, ran) == (reason, change(sealed), 0, [])
    assert len(record.failures) == 1
    assert reason in caplog.text


def test_no_single_flipped_bit_gets_through(app, ran, sealed, message):
    bodies = [flip(sealed, position) for position in range(len(sealed))]
    app.backend.put([message(number, body=body) for number, body in enumerate(bodies)])
    tally = run_due(app, "mail")
    assert ran == []
    assert tally.total() == len(bodies)
    assert set(tally) <= {"rejected", "postponed"}  # postponed: a bit of the key's name, which may be on its way


def test_a_message_moved_to_another_queue_is_refused(app, ran, sealed, message):
    app.backend.put([message(1, queue="default", body=sealed)])
    assert run_due(app, "default") == {"rejected": 1}
    assert ([record.reason for record in app.backend.dead()], ran) == (["bad_signature"], [])


def test_a_message_of_an_unknown_key_waits_and_is_dead_after_the_patience(app, ran, clock, message):
    with Tenure("memory://", clock=clock) as other:
        other.job(name="greet", queue="mail")(lambda name: None)
        id = other.enqueue(Job(handler="greet", payload={"name": "Eve"}, queue="mail"))
        foreign = other.backend.find(id).body
    app.backend.put([message(1, body=foreign)])
    assert run_due(app, "mail") == {"postponed": 1}
    clock.advance(3601)
    assert run_due(app, "mail") == {"rejected": 1}
    assert ([record.reason for record in app.backend.dead()], ran) == (["unknown_key"], [])


def test_a_handler_outside_the_allowlist_of_its_queue_is_refused(url, clock, message):
    ran = []
    key = "k1:" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    with Tenure(url, clock=clock, keys=[key]) as producer:
        producer.job(name="greet", queue="mail")(lambda: None)
        sealed = sealed_by(producer, Job(handler="greet", payload={}, queue="mail"))
        with Tenure("memory://", clock=clock, keys=[key], allow={"mail": ["other"]}) as worker:
            worker.job(name="greet")(lambda: ran.append(1))
            worker.backend.put([message(1, body=sealed)])
            assert run_due(worker, "mail") == {"rejected": 1}
            assert ([record.reason for record in worker.backend.dead()], ran) == (["forbidden"], [])


def sealed_by(app, job):
    id = app.enqueue(job)
    return app.backend.find(id).body


def test_the_same_bytes_put_again_under_their_id_run_once(app, ran, message):
    id = app.enqueue(Job(handler="greet", payload={"name": "Ada"}, queue="mail"))
    body = app.backend.find(id).body
    assert run_due(app) == {"acked": 1}
    app.backend.put([message(1, id=id, body=body)])
    assert run_due(app) == {}
    assert ran == ["Ada"]
