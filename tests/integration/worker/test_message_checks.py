"""The worker rejects forged, changed and moved messages, and keeps them as dead letters with the reason."""

import logging
from collections import Counter

import pytest

from tenure import Job, Tenure
from tenure.errors import OutOfScope, SettingsError
from tenure.testing import run_due
from tenure.wire.signing import new_key

KEY = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"


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
    (record,) = app.backend.dead_letters.page()
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
    assert not any("stored as" in record.failures[-1].message for record in app.backend.dead_letters.page(limit=10_000))


def test_a_message_moved_to_another_queue_is_refused(app, ran, sealed, message):
    app.backend.put([message(1, queue="default", body=sealed)])
    assert run_due(app, "default") == {"rejected": 1}
    assert ([record.reason for record in app.backend.dead_letters.page()], ran) == (["bad_signature"], [])


def test_a_message_of_an_unknown_key_waits_and_is_dead_after_a_while(app, ran, clock, message):
    with Tenure("memory://", clock=clock, keys=[KEY]) as other:
        other.job(name="greet", queue="mail")(lambda name: None)
        id = other.enqueue(Job(handler="greet", payload={"name": "Eve"}, queue="mail"))
        foreign = other.backend.jobs.find(id).body
    app.backend.put([message(1, body=foreign)])
    assert run_due(app, "mail") == {"postponed": 1}
    clock.advance(3601)
    assert run_due(app, "mail") == {"rejected": 1}
    assert ([record.reason for record in app.backend.dead_letters.page()], ran) == (["unknown_key"], [])


def test_a_handler_outside_the_allowlist_of_its_queue_is_refused(url, clock, message):
    ran = []
    with Tenure(url, clock=clock, keys=[KEY]) as producer:
        producer.job(name="greet", queue="mail")(lambda: None)
        sealed = sealed_by(producer, Job(handler="greet", payload={}, queue="mail"))
        with Tenure("memory://", clock=clock, keys=[KEY], allow={"mail": ["other"]}) as worker:
            worker.job(name="greet")(lambda: ran.append(1))
            worker.backend.put([message(1, id=sealed.id, body=sealed.body)])
            assert run_due(worker, "mail") == {"rejected": 1}
            assert ([record.reason for record in worker.backend.dead_letters.page()], ran) == (["forbidden"], [])


def sealed_by(app, job):
    return app.backend.jobs.find(app.enqueue(job))


def test_the_same_bytes_under_another_id_are_refused(app, ran, message):
    id = app.enqueue(Job(handler="greet", payload={"name": "Ada"}, queue="mail"))
    app.backend.put([message(1, body=app.backend.jobs.find(id).body)])
    assert run_due(app) == {"acked": 1, "rejected": 1}
    (record,) = app.backend.dead_letters.page()
    assert (record.reason, ran) == ("bad_signature", ["Ada"])
    assert f"signed as job '{id}' but stored as" in record.failures[-1].message


@pytest.mark.parametrize(
    ("theirs", "ours"), [("staging", "production"), (None, "production"), ("staging", None)], ids=repr
)
def test_a_message_for_another_audience_is_refused(clock, message, theirs, ours):
    ran = []
    with Tenure("memory://", clock=clock, keys=[KEY], audience=theirs) as producer:
        producer.job(name="greet", queue="mail")(lambda: None)
        sealed = sealed_by(producer, Job(handler="greet", payload={}, queue="mail"))
    with Tenure("memory://", clock=clock, keys=[KEY], audience=ours) as worker:
        worker.job(name="greet")(lambda: ran.append(1))
        worker.backend.put([message(1, id=sealed.id, body=sealed.body)])
        assert run_due(worker, "mail") == {"rejected": 1}
        assert ([record.reason for record in worker.backend.dead_letters.page()], ran) == (["wrong_audience"], [])


def reason_of_refusal(clock, message, scope, **options):
    """Why a worker refuses a job that a key with this scope signed; None when the job runs."""
    ran = []
    with Tenure("memory://", clock=clock, keys=[KEY]) as producer:
        producer.job(name="greet", queue="mail")(lambda: None)
        sealed = sealed_by(producer, Job(handler="greet", payload={}, queue="mail", **options))
    with Tenure("memory://", clock=clock, keys=[KEY], scopes={"k1": scope}) as worker:
        worker.job(name="greet")(lambda: ran.append(1))
        worker.backend.put([message(1, id=sealed.id, body=sealed.body)])
        run_due(worker, "mail")
        reasons = [record.reason for record in worker.backend.dead_letters.page()]
    assert len(ran) + len(reasons) == 1
    return reasons[0] if reasons else None


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        ({"queues": ["mail"], "handlers": ["greet"]}, None),
        ({"queues": ["mail"]}, None),
        ({}, None),
        ({"queues": ["reports"]}, "out_of_scope"),
        ({"handlers": ["other"]}, "out_of_scope"),
        ({"queues": [], "handlers": ["greet"]}, "out_of_scope"),
    ],
)
def test_a_key_signs_only_for_the_queues_and_handlers_of_its_scope(clock, message, scope, reason):
    assert reason_of_refusal(clock, message, scope) == reason


MAIL = {"queues": ["mail"]}


@pytest.mark.parametrize(
    ("options", "scope", "reason"),
    [
        ({"idempotency_key": "payments:order-7"}, MAIL, "out_of_scope"),
        ({"idempotency_key": "payments:order-7"}, {"handlers": ["greet"]}, "out_of_scope"),
        ({"idempotency_key": "mailbox:7"}, MAIL, "out_of_scope"),
        ({"idempotency_key": "cron:nightly@0"}, MAIL, "out_of_scope"),
        ({"breaker": "payments-api"}, MAIL, "out_of_scope"),
        ({"key": "tenant-7", "at_most": 1}, MAIL, "out_of_scope"),
        ({"key": "tenant-7", "rate": "1/min"}, MAIL, "out_of_scope"),
        ({"name": "charge", "single_instance": True}, MAIL, "out_of_scope"),
        ({"idempotency_key": "mail:7"}, {"queues": [], "guards": ["*"]}, "out_of_scope"),
        ({"idempotency_key": "mail:7"}, MAIL, None),
        ({"breaker": "mail"}, MAIL, None),
        ({"idempotency_key": "greet:7"}, {"handlers": ["greet"]}, None),
        ({"idempotency_key": "order:7", "breaker": "smtp"}, {**MAIL, "guards": ["order", "smtp"]}, None),
        ({"idempotency_key": "anything"}, {**MAIL, "guards": ["*"]}, None),
        ({"idempotency_key": "anything"}, {}, None),
        ({"name": "charge"}, MAIL, None),
        ({"single_instance": True, "at_most": 1, "rate": "1/min"}, MAIL, None),
    ],
)
def test_a_key_takes_only_guards_that_belong_to_its_scope(clock, message, options, scope, reason):
    """Otherwise it could claim the idempotency key of another queue, or hold its lock or its breaker."""
    assert reason_of_refusal(clock, message, scope, **options) == reason


def test_a_follower_takes_only_guards_that_belong_to_the_scope_of_the_key(clock, message):
    follower = Job(handler="greet", payload={}, queue="mail", idempotency_key="payments:order-7")
    with Tenure("memory://", clock=clock, keys=[KEY]) as producer:
        producer.job(name="greet", queue="mail")(lambda: None)
        sealed = sealed_by(producer, Job(handler="greet", payload={}, queue="mail", then=(follower,)))
    with Tenure("memory://", clock=clock, keys=[KEY], scopes={"k1": MAIL}) as worker:
        worker.job(name="greet")(lambda: None)
        worker.backend.put([message(1, id=sealed.id, body=sealed.body)])
        run_due(worker, "mail")
        assert [record.reason for record in worker.backend.dead_letters.page()] == ["out_of_scope"]


def test_a_producer_is_told_at_once_that_its_key_may_not_take_a_guard():
    with Tenure("memory://", keys=[KEY], scopes={"k1": MAIL}) as app:
        app.job(name="greet", queue="mail")(lambda: None)
        with pytest.raises(OutOfScope, match="guard 'order-7', which belongs to no queue, handler or guard of its"):
            app.define("greet").queue("mail").idempotency_key("order-7").dispatch()


def test_a_producer_is_told_at_once_that_its_key_may_not_sign_for_a_queue():
    with Tenure("memory://", keys=[KEY], scopes={"k1": {"queues": ["mail"]}}) as app:
        app.job(name="greet")(lambda: None)
        with pytest.raises(OutOfScope, match="key 'k1' may not sign for queue 'reports'"):
            app.define("greet").queue("reports").dispatch()


def test_a_scope_for_a_key_that_is_not_there_is_refused():
    with Tenure("memory://", keys=[KEY], scopes={"k9": {}}) as app, pytest.raises(SettingsError, match="'k9'"):
        _ = app.backend


def test_keys_rotate_under_load_without_one_reject(tmp_path):
    old, new = new_key("old").dump(), new_key("new").dump()
    steps = [(old,), (old, new), (new, old), (new,)]
    url, seen = f"sqlite:///{tmp_path}/jobs.db", []

    def app_with(*keys):
        app = Tenure(url, keys=keys)
        app.job(name="note")(seen.append)
        return app

    tally = Counter()
    ring = [app_with(*keys) for keys in steps]
    for producer, worker in ((0, 0), (0, 1), (1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (3, 3)):  # never two steps apart
        ring[producer].enqueue_many(ring[producer].define("note", {"object": n}).build() for n in range(50))
        tally += ring[worker].worker(burst=True).run()
    assert (tally, len(seen)) == ({"acked": 400}, 400)
    for app in ring:
        app.close()


def test_a_rejected_message_is_logged_once_at_critical_and_counted_without_its_body(app, ran, message, caplog):
    body = b'{"v":1,"kid":"k1","payload":{"password":"CANARY"}}'
    app.backend.put([message(1, body=body)])
    with caplog.at_level(logging.DEBUG):
        run_due(app, "mail")
    (record,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert (record.reason, record.queue) == ("bad_signature", "mail")
    assert "CANARY" not in caplog.text
    assert app.metrics.snapshot()["counters"]["jobs_rejected_signature|queue=mail"] == 1


def test_the_same_bytes_put_again_under_their_id_run_once(app, ran, message):
    id = app.enqueue(Job(handler="greet", payload={"name": "Ada"}, queue="mail"))
    body = app.backend.jobs.find(id).body
    assert run_due(app) == {"acked": 1}
    app.backend.put([message(1, id=id, body=body)])
    assert run_due(app) == {}
    assert ran == ["Ada"]
