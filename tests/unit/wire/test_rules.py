"""A message, and each job that follows it, obeys the rules of a Job, whoever sealed it."""

import json
from typing import get_type_hints

import pytest

from tenure import Job
from tenure.definition.limits import bounds_of
from tenure.errors import InvalidJob, Malformed
from tenure.wire.envelope import Envelope, claimed_tags
from tenure.wire.signing import SEAL_SIZE

REFUSED = {  # member of the message: values that no Job takes
    "job": ["", "a b", "é", "a\r\nb", "x" * 201, "a\0", 7, None],
    "name": ["x" * 256, "a\0b", 7, []],
    "priority": [-1, 10, 5.5, "5", None, True],
    "maxRetries": [-1, 2**31, 1.5, "1", None],
    "attempts": [-1, 2**31],
    "idempotencyKey": ["x" * 256, "a\0b", 7],
    "schedule": ["2030-01-01T00:00:00", "9999-12-31T23:59:59-12:00", 5],
    "timeout": [0, -1, 1e10, "5", 10**400],
    "singleInstance": [1, "true"],
    "maxCrashes": [-1, 101, 2**62],
    "backoff": [{"base": -1}, {"base": 1e300}, {"strategy": "linear"}, {"multiplier": 0}, 5],
    "meta": [[], "a", 5],
    "createdAt": ["2030-01-01T00:00:00", "0001-01-01T00:00:00"],
    "expiresAt": ["2030-01-01T00:00:00", "9999-12-31T23:59:59-12:00"],
    "version": [0, -1, 2**31],
    "callbacks": [{"then": [5]}, {"then": [{"message": {}}]}, []],
    "idempotencyTtl": [0, -1, 1e15, 1e308],
    "key": ["x" * 256, "a\0b"],
    "atMost": [0, -1, 2**31],
    "rate": ["abc", "0/s", "5/s burst 6", "1/s\0", "x" * 256],
    "breaker": ["x" * 256, "a\0b"],
    "tags": ["a", [""], ["a,b"], ["a\n"], ["a\0"], ["x" * 65], ["a", "a"], [7], [str(n) for n in range(17)], None],
    "trace": [{"traceparent": "x" * 65}, 5],
    "unique": ["x" * 256, "a\0b"],
}
FOLLOWER_QUEUES = ["", "a b", "x\r\ndelete 1", "x" * 101, "x" * 20_000, "a\0", "é"]
CASES = [(member, value) for member, values in REFUSED.items() for value in values]


@pytest.fixture
def seal(ring, sealed):
    """Seals the members of a good message after some of them were changed."""

    def make(members: dict) -> bytes:
        good = json.loads(sealed[:-SEAL_SIZE] + b"}")
        unsealed = json.dumps({**good, **members}, separators=(",", ":")).encode()
        return ring.seal(unsealed)

    return make


@pytest.fixture
def follower(sealed):
    """The members of a good follower after some of them were changed."""
    return lambda members: {**json.loads(sealed[:-SEAL_SIZE] + b"}"), **members}


@pytest.mark.parametrize(("member", "value"), CASES, ids=lambda value: repr(value)[:20])
def test_a_message_that_no_job_could_be_is_malformed(wire, seal, member, value):
    with pytest.raises(Malformed):
        wire.open(seal({member: value}), "slow", "id-1")


@pytest.mark.parametrize("place", ["then", "onFailure", "finally", "chain"])
@pytest.mark.parametrize(
    ("member", "value"), [*CASES, *(("queue", queue) for queue in FOLLOWER_QUEUES)], ids=lambda value: repr(value)[:20]
)
def test_a_follower_that_no_job_could_be_makes_its_message_malformed(wire, seal, follower, place, member, value):
    with pytest.raises(Malformed):
        wire.open(seal({"callbacks": {place: [{"message": follower({member: value})}]}}), "slow", "id-1")


@pytest.mark.parametrize("delay", [-1, 1e10, 1e308, "5", None])
def test_a_follower_waits_no_longer_than_a_job_may(wire, seal, follower, delay):
    with pytest.raises(Malformed):
        wire.open(seal({"callbacks": {"then": [{"message": follower({}), "delay": delay}]}}), "slow", "id-1")


def test_a_follower_of_a_follower_obeys_the_rules_too(wire, seal, follower):
    inner = follower({"callbacks": {"chain": [{"message": follower({"queue": "x\r\ndelete 1"})}]}})
    with pytest.raises(Malformed, match=r"cannot name a queue"):
        wire.open(seal({"callbacks": {"then": [{"message": inner}]}}), "slow", "id-1")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 5000, "NaN", "Infinity"])
@pytest.mark.parametrize("member", [name for name in REFUSED if name not in ("callbacks", "job")] + ["v", "identifier"])
def test_a_number_that_no_field_can_hold_is_malformed_in_every_field(wire, ring, seal, member, number):
    unsealed = seal({member: "<number>"})[:-SEAL_SIZE].replace(b'"<number>"', number.encode()) + b"}"
    with pytest.raises(Malformed):
        wire.open(ring.seal(unsealed), "slow", "id-1")


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_a_number_that_no_decoder_reads_is_malformed_in_meta(wire, ring, seal, number):
    unsealed = seal({"meta": {"a": ["<number>"]}})[:-SEAL_SIZE].replace(b'"<number>"', number.encode()) + b"}"
    with pytest.raises(Malformed):
        wire.open(ring.seal(unsealed), "slow", "id-1")


def test_the_bounds_of_a_message_are_those_of_a_job():
    ours, theirs = (
        {bound.field: bound.bounds for bound in bounds_of(get_type_hints(kind, include_extras=True))}
        for kind in (Job, Envelope)
    )
    shared = ours.keys() & theirs.keys()
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
    assert shared >= {"name", "priority", "max_retries", "timeout", "max_crashes", "idempotency_ttl", "at_most"}


@pytest.mark.parametrize("value", ["\0", "\ud800"])
def test_what_a_job_refuses_is_not_sealed(wire, value):
    for field in ("name", "idempotency_key", "key", "breaker"):
        with pytest.raises(InvalidJob):
            wire.seal(Job(handler="report", **{field: value}), b"null", "id-1", 0)


def test_the_tags_that_a_message_claims_are_those_that_can_be_stored(wire, seal, sealed):
    assert claimed_tags(wire.seal(Job(handler="report", tags=("a", "Ω")), b"null", "id-1", 0)) == ("a", "Ω")
    assert (
        claimed_tags(sealed) == claimed_tags(b"") == claimed_tags(b'{"tags":') == claimed_tags(seal({"tags": 5})) == ()
    )
    many = [str(number) for number in range(20)]
    assert claimed_tags(seal({"tags": ["a,b", "a\0", "", "x" * 65, *many, *many]})) == tuple(many[:16])


def test_a_nul_in_the_payload_and_in_meta_is_no_concern_of_ours(wire, seal):
    assert wire.open(seal({"payload": {"a": "\0"}, "meta": {"b": "\0"}}), "slow", "id-1").meta == {"b": "\0"}
