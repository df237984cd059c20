"""Seal and open: every field survives the round trip, and what could not be opened is not sealed."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tenure import Backoff, Job
from tenure.clock import to_datetime
from tenure.errors import InvalidJob, InvalidPayload, Malformed
from tenure.wire.envelope import Wire
from tenure.wire.signing import Key, Ring

NOW = 1_893_456_000_123_456
WIRE = Wire(Ring([Key("k1", bytes(range(32)))]))

storable_texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=25,
)


def test_an_opened_message_holds_what_was_sealed(wire):
    job = Job(
        handler="report",
        queue="slow",
        name="monthly",
        priority=8,
        max_retries=3,
        timeout=30.0,
        at=datetime(2030, 6, 1, 12, tzinfo=UTC),
        expires_at=datetime(2030, 7, 1, tzinfo=UTC),
        single_instance=True,
        idempotency_key="2030-06",
        idempotency_ttl=60.0,
        key="tenant-a",
        at_most=3,
        rate="10/s",
        breaker="stripe",
        unique="only-one",
        backoff=Backoff("fixed", base=1.0),
        max_crashes=1,
        meta={"tenant": "a"},
        tags=("billing", "Ω"),
    )

    envelope = wire.open(wire.seal(job, b"[1,2]", "id-1", NOW, version=2), "slow")

    assert msgspec.structs.asdict(envelope) == {
        "v": 1,
        "kid": "k1",
        "job": "report",
        "payload": msgspec.Raw(b"[1,2]"),
        "queue": "slow",
        "priority": 8,
        "max_retries": 3,
        "attempts": 0,
        "name": "monthly",
        "identifier": "id-1",
        "idempotency_key": "2030-06",
        "schedule": datetime(2030, 6, 1, 12, tzinfo=UTC),
        "timeout": 30.0,
        "single_instance": True,
        "max_crashes": 1,
        "backoff": Backoff("fixed", base=1.0),
        "meta": {"tenant": "a"},
        "audience": UNSET,
        "created_at": to_datetime(NOW),
        "expires_at": datetime(2030, 7, 1, tzinfo=UTC),
        "version": 2,
        "callbacks": UNSET,
        "idempotency_ttl": 60.0,
        "key": "tenant-a",
        "at_most": 3,
        "rate": "10/s",
        "breaker": "stripe",
        "tags": ("billing", "Ω"),
        "trace": UNSET,
        "unique": "only-one",
    }


def test_what_was_not_set_is_not_there(wire, sealed):
    envelope = wire.open(sealed, "slow")

    unset = [name for name, value in msgspec.structs.asdict(envelope).items() if value is UNSET]
    absent = [
        "timeout",
        "single_instance",
        "max_crashes",
        "backoff",
        "meta",
        "audience",
        "expires_at",
        "version",
        "callbacks",
        "idempotency_ttl",
        "key",
        "at_most",
        "rate",
        "breaker",
        "tags",
        "trace",
        "unique",
    ]
    assert unset == absent


def test_the_members_of_a_message_keep_their_order(sealed):
    names = list(json.loads(sealed))

    assert names[:2] == ["v", "kid"]
    assert names[-1] == "_sig"


def test_attempts_on_the_wire_are_0_for_ever(wire, sealed):
    assert wire.open(sealed, "slow").attempts == 0


def test_the_same_job_is_sealed_into_the_same_bytes(wire, sealed):
    assert wire.seal(Job(handler="report", queue="slow"), b'{"month":6}', "id-1", NOW) == sealed


@given(json_values)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_payload_opens_as_it_was_sealed(value):
    sealed = WIRE.seal(Job(handler="report"), msgspec.json.encode(value), "id-1", NOW)

    assert msgspec.json.decode(WIRE.open(sealed, "default").payload) == value


@given(
    name=st.none() | storable_texts,
    key=st.none() | storable_texts,
    meta=st.dictionaries(st.text(max_size=5), json_values, max_size=3),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_and_meta_open_as_they_were_sealed(name, key, meta):
    job = Job(handler="report", name=name, idempotency_key=key, meta=meta)

    envelope = WIRE.open(WIRE.seal(job, b"null", "id-1", NOW), "default")

    assert (envelope.name, envelope.idempotency_key) == (name, key)
    assert ({} if envelope.meta is UNSET else envelope.meta) == meta


def test_huge_numbers_survive_exactly(wire):
    number = 10**1000 + 7

    sealed = wire.seal(Job(handler="report"), b'{"n":%d,"text":"\\n"}' % number, "id-1", NOW)

    assert msgspec.json.decode(wire.open(sealed, "default").payload)["n"] == number


def test_a_message_above_the_size_limit_is_not_sealed(ring):
    wire = Wire(ring, max_bytes=1024)

    with pytest.raises(InvalidPayload, match=r"makes a message of \d+ bytes, above the limit of 1024; store the data"):
        wire.seal(Job(handler="report"), b'"' + b"a" * 1024 + b'"', "id-1", NOW)


def test_a_message_of_just_the_limit_travels(ring, sealed):
    wire = Wire(ring, max_bytes=len(sealed))

    assert wire.open(sealed, "slow").job == "report"


def test_a_message_above_the_size_limit_is_not_opened(ring, sealed):
    wire = Wire(ring, max_bytes=len(sealed) - 1)

    with pytest.raises(Malformed, match=rf"has {len(sealed)} bytes, more than the limit of {len(sealed) - 1}"):
        wire.open(sealed, "slow")


def test_a_payload_nested_too_deeply_is_not_sealed(wire):
    with pytest.raises(InvalidPayload, match="nested deeper than 64 levels; make its payload smaller"):
        wire.seal(Job(handler="report"), b"[" * 64 + b"]" * 64, "id-1", NOW)


def test_a_payload_of_63_levels_travels_in_its_envelope(wire):
    sealed = wire.seal(Job(handler="report"), b"[" * 63 + b"]" * 63, "id-1", NOW)

    assert bytes(wire.open(sealed, "default").payload) == b"[" * 63 + b"]" * 63


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"a": float("nan")}, r"meta\.a of job 'report' is nan; JSON has no such number"),
        ({"a": {"b": b"x"}}, r"meta\.a\.b of job 'report' is b'x'"),
        ({"a": object()}, r"meta\.a of job 'report' is <object"),
        ({1: "a"}, r"meta\[1\] of job 'report' is 1; JSON objects have text keys"),
    ],
)
def test_meta_that_json_cannot_carry_is_refused_with_its_path(wire, meta, message):
    with pytest.raises(InvalidJob, match=message):
        wire.seal(Job(handler="report", meta=meta), b"null", "id-1", NOW)


def test_text_that_utf8_cannot_carry_is_refused(wire):
    with pytest.raises(InvalidJob, match="has text that UTF-8 cannot carry"):
        wire.seal(Job(handler="report", meta={"a": "\ud800"}), b"null", "id-1", NOW)
