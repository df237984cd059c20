"""Hostile messages: what an attacker with access to a queue might store there, with and without a key."""

import json

from tenure import Job
from tenure.wire.envelope import Wire
from tenure.wire.signing import SEAL_SIZE, Ring

QUEUE = "mail"
NOW = 1_893_456_000_123_456
PICKLE = b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."


def hostile(wire: Wire, other: Wire) -> dict[str, bytes]:
    """Bodies by name; `other` holds a key of its own under the same id."""
    good = wire.seal(Job(handler="greet", queue=QUEUE), b'{"name":"Eve"}', "good", NOW)
    return {**_without_key(good, other), **_with_key(wire, good)}


def _without_key(good: bytes, other: Wire) -> dict[str, bytes]:
    unsigned = good[:-SEAL_SIZE]
    return {
        "empty": b"",
        "one byte": b"{",
        "a NUL": b"\0",
        "NULs": b"\0" * 1000,
        "every byte": bytes(range(256)),
        "invalid UTF-8": b'{"v":1,"kid":"\xff\xfe"}',
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": good.decode().encode("utf-16"),
        "null": b"null",
        "a number": b"1e999",
        "a list": b"[]",
        "an empty object": b"{}",
        "nested lists": b"[" * 100_000,
        "nested objects": b'{"a":' * 50_000,
        "nested in an envelope": b'{"v":1,"kid":"k1","payload":' + b"[" * 100_000,
        "a huge number": b'{"v":' + b"9" * 200_000,
        "a huge version": b'{"v":' + b"9" * 9 + b",",
        "a pickle": PICKLE,
        "a pickle in an envelope": b'{"v":1,"kid":"' + PICKLE,
        "YAML": b"!!python/object/apply:os.system [id]",
        "XML": b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        "SQL": b"'; DROP TABLE tenure_job; --",
        "a shell": b"$(touch /tmp/pwned)`id`",
        "unsigned": unsigned + b"}",
        "an empty seal": unsigned + b',"_sig":""}',
        "a seal of zeros": unsigned + b',"_sig":"' + b"0" * 64 + b'"}',
        "a seal that is null": unsigned + b',"_sig":null}',
        "a seal in capitals": good[:-66] + good[-66:-2].upper() + b'"}',
        "a longer seal": good[:-2] + b'00"}',
        "two seals": good[:-1] + good[-SEAL_SIZE:],
        "no algorithm": good.replace(b'{"v":1,', b'{"v":1,"alg":"none",'),
        "a kid that is a path": good.replace(b'"kid":"k1"', b'"kid":"../../etc/passwd"'),
        "a kid that is SQL": good.replace(b'"kid":"k1"', b'"kid":"\' OR 1=1"'),
        "an endless kid": b'{"v":1,"kid":"' + b"k" * 200_000,
        "no kid": good.replace(b'"kid":"k1",', b""),
        "another key": other.seal(Job(handler="greet", queue=QUEUE), b'{"name":"Eve"}', "good", NOW),
        "a changed payload": good.replace(b"Eve", b"Eva"),
        "a changed handler": good.replace(b'"greet"', b'"other"'),
        "a changed queue": good.replace(b'"queue":"mail"', b'"queue":"root"'),
        "a raised priority": good.replace(b'"priority":5', b'"priority":9'),
        "cut short": good[:-1],
        "half": good[: len(good) // 2],
        "followed by another": good + good,
        "followed by a line": good + b"\n",
        "after a space": b" " + good,
        "too large": good + b" " * 300_000,
    }


def _with_key(wire: Wire, good: bytes) -> dict[str, bytes]:
    """What a key holder could seal that our own code never would."""

    def changed(old: bytes, new: bytes) -> bytes:
        assert old in good
        return wire.ring.seal(good[:-SEAL_SIZE].replace(old, new) + b"}")

    payload = b'{"name":"Eve"}'
    return {
        "signed for another id": good,
        "signed rubbish": wire.ring.seal(b'{"v":1,"kid":"k1","}'),
        "signed without members": wire.ring.seal(b'{"v":1,"kid":"k1"}'),
        "signed with a member twice": changed(b',"createdAt"', b',"job":"other","createdAt"'),
        "signed with a name twice in an unknown member": changed(
            b',"createdAt"', b',"new":[{"a":1,"a":1}],"createdAt"'
        ),
        "signed with an unknown handler in Python": changed(b'"job":"greet"', b'"job":"os.system"'),
        "signed with a dunder": changed(b'"job":"greet"', b'"job":"__class__"'),
        "signed with a deep payload": changed(payload, b"[" * 100 + b"]" * 100),
        "signed with a wide payload": changed(payload, b"[" + b"1," * 60_000 + b"1]"),
        "signed with a number that is none": changed(payload, b'{"name":NaN}'),
        "signed with an endless number": changed(payload, b'{"name":' + b"9" * 5000 + b"}"),
        "signed with a lone surrogate": changed(payload, b'{"name":"\\ud800"}'),
        "signed with invalid UTF-8": changed(payload, b'{"name":"\xff"}'),
        "signed with a raw NUL": changed(payload, b'{"name":"\x00"}'),
        "signed with another type": changed(payload, b'{"name":{"a":1}}'),
        "signed with another argument": changed(payload, b'{"name":"a","self":1}'),
        "signed with a payload that ends the envelope": changed(payload, b'{}},"queue":"root"'),
        "signed with a wrong priority": changed(b'"priority":5', b'"priority":1000'),
        "signed with negative retries": changed(b'"maxRetries":0', b'"maxRetries":-1'),
        "signed with a text for a number": changed(b'"maxRetries":0', b'"maxRetries":"0"'),
        "signed with a long name": changed(b'"name":null', b'"name":' + json.dumps("x" * 5000).encode()),
        "signed with a bad time": changed(b'"schedule":null', b'"schedule":"9999-99-99T00:00:00Z"'),
        "signed with a bad backoff": changed(b',"createdAt"', b',"backoff":{"base":-1},"createdAt"'),
        "signed with an endless backoff": changed(b',"createdAt"', b',"backoff":{"base":1e308},"createdAt"'),
        "signed with another audience": changed(b',"createdAt"', b',"audience":"staging","createdAt"'),
        "signed for another queue": changed(b'"queue":"mail"', b'"queue":"root"'),
        "signed with another version": changed(b'{"v":1,', b'{"v":2,'),
    }


LEVELS = (64, 65, 256, 2000, 100_000)
TWICE = b'"a":1,"a":{"b":1,"b":2},"to":"Ada"'


def extremes(ring: Ring, handler: str, queue: str) -> dict[str, tuple[bytes, str]]:
    """Hostile nesting, sizes and repeated names in payload, meta and callbacks: by id, the body and how the job ends.

    The handler takes any object with the member `to`.
    """

    def message(payload: bytes, more: bytes = b"", id: str = "<id>") -> bytes:
        head = f'{{"v":1,"kid":"{ring.kid}","job":"{handler}","payload":'
        rest = f',"queue":"{queue}","priority":5,"maxRetries":0,"attempts":0,"name":null,"identifier":"{id}"'
        return (
            head.encode()
            + payload
            + rest.encode()
            + b',"idempotencyKey":null,"schedule":null,"timeout":30.0'
            + more
            + b"}"
        )

    def followed_by(follower: bytes) -> bytes:
        return message(b'{"to":"Ada"}', b',"callbacks":{"then":[%s]}' % follower)

    places = {
        "payload": (2, lambda inner: message(b'{"to":"Eve",%s}' % inner)),
        "meta": (2, lambda inner: message(b'{"to":"Ada"}', b',"meta":{%s}' % inner)),
        "callbacks": (6, lambda inner: followed_by(b'{"message":%s}' % message(b'{"to":"Eve",%s}' % inner, id=""))),
    }
    unsealed = {
        "delay-twice": (followed_by(b'{"message":%s,"delay":0,"delay":0}' % message(b'{"to":"Ada"}')), "dead"),
        "then-twice": (message(b'{"to":"Ada"}', b',"callbacks":{"then":[],"then":[]}'), "dead"),
    }
    for place, (outer, make) in places.items():
        for levels in LEVELS:
            nested = b'"a":' + b"[" * (levels - outer) + b"]" * (levels - outer)
            unsealed[f"{levels}-levels-in-{place}"] = make(nested), "done" if levels == 64 else "dead"
        unsealed[f"wide-{place}"] = make(b'"a":[' + b"1," * 50_000 + b"1]"), "dead"
        unsealed[f"large-{place}"] = make(b'"a":"' + b"x" * 300_000 + b'"'), "dead"
        # A payload has one decoder, so it is not searched; the last member of a name counts.
        unsealed[f"twice-in-{place}"] = make(TWICE), "dead" if place == "meta" else "done"
    return {id: (ring.seal(body.replace(b"<id>", id.encode())), end) for id, (body, end) in unsealed.items()}
