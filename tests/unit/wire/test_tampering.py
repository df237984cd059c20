"""Messages that were changed or not sealed by us are refused with the reason."""

import time

import pytest

from tenure import Job
from tenure.errors import BadSignature, Malformed, MessageRejected, UnknownKey, UnsupportedVersion
from tenure.wire.envelope import Wire
from tenure.wire.signing import SEAL_SIZE, Key, Ring

NOW = 1_893_456_000_123_456


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF])
def test_a_flipped_bit_in_any_byte_is_refused(wire, sealed, mask):
    accepted = []
    for position in range(len(sealed)):
        forged = bytearray(sealed)
        forged[position] ^= mask
        try:
            wire.open(bytes(forged), "slow")
        except MessageRejected:
            continue
        accepted.append(position)

    assert accepted == []


def test_a_truncated_message_is_refused_at_any_length(wire, sealed):
    accepted = []
    for length in range(len(sealed)):
        try:
            wire.open(sealed[:length], "slow")
        except MessageRejected:
            continue
        accepted.append(length)

    assert accepted == []


@pytest.mark.parametrize("extra", [b" ", b"\n", b"}", b"\x00", b',"a":1}'])
def test_an_extended_message_is_refused(wire, sealed, extra):
    with pytest.raises(BadSignature):
        wire.open(sealed + extra, "slow")


@pytest.mark.parametrize("extra", [b" ", b"\xef\xbb\xbf", b"[", b"\x00"])
def test_a_message_with_something_before_it_is_refused(wire, sealed, extra):
    with pytest.raises(Malformed, match="does not begin with"):
        wire.open(extra + sealed, "slow")


def test_a_byte_put_into_a_message_is_refused(wire, sealed):
    with pytest.raises(BadSignature):
        wire.open(sealed.replace(b'"priority":5', b'"priority":59'), "slow")


def test_an_unsigned_message_is_refused(wire, sealed):
    with pytest.raises(BadSignature, match="does not end in a signature"):
        wire.open(sealed[:-SEAL_SIZE] + b"}", "slow")


def test_an_empty_signature_is_refused(wire, sealed):
    with pytest.raises(BadSignature):
        wire.open(sealed[:-SEAL_SIZE] + b',"_sig":""}', "slow")


def test_a_signature_in_capitals_is_refused(wire, sealed):
    with pytest.raises(BadSignature):
        wire.open(sealed[:-66] + sealed[-66:-2].upper() + b'"}', "slow")


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b"[]", b'"text"', b"\xff\xfe", b"{", b'{"v":1,"kid":"'])
def test_what_is_no_message_is_refused(wire, body):
    with pytest.raises(MessageRejected):
        wire.open(body, "slow")


def test_a_message_of_another_key_with_the_same_id_is_refused(sealed):
    other = Wire(Ring([Key("k1", bytes(range(1, 33)))]))

    with pytest.raises(BadSignature, match="the signature made with key 'k1' does not match the message"):
        other.open(sealed, "slow")


def test_a_message_of_a_key_we_do_not_hold_is_told_apart(sealed):
    other = Wire(Ring([Key("k2", bytes(range(32)))]))

    with pytest.raises(UnknownKey, match="sealed with key 'k1', which is not in the key ring"):
        other.open(sealed, "slow")


def test_any_key_of_the_ring_verifies(key, sealed):
    rotated = Wire(Ring([Key("k2", bytes(range(1, 33))), key]))

    assert rotated.open(sealed, "slow").kid == "k1"


def test_the_first_key_of_the_ring_signs(key):
    rotated = Wire(Ring([Key("k2", bytes(range(1, 33))), key]))

    assert rotated.seal(Job(handler="report"), b"null", "id-1", NOW).startswith(b'{"v":1,"kid":"k2"')


def test_a_message_moved_to_another_queue_is_refused(wire, sealed):
    with pytest.raises(BadSignature, match="was signed for queue 'slow' but came from queue 'admin'"):
        wire.open(sealed, "admin")


@pytest.mark.parametrize("version", [0, 2, 10, 999_999_999])
def test_a_message_of_another_version_is_told_apart(wire, sealed, version):
    with pytest.raises(UnsupportedVersion, match=f"envelope version {version} is not one this release reads; upgrade"):
        wire.open(sealed.replace(b'{"v":1,', b'{"v":%d,' % version), "slow")


@pytest.mark.parametrize(
    ("old", "new", "member"),
    [
        (b',"createdAt"', b',"queue":"slow","createdAt"', "queue"),
        (b',"createdAt"', b',"queue":"admin","createdAt"', "queue"),
        (b',"createdAt"', b',"v":1,"createdAt"', "v"),
        (b',"createdAt"', b',"unknown":1,"unknown":2,"createdAt"', "unknown"),
        (b'.123456Z"', b'.123456Z","queue":"slow"', "queue"),
        (b'.123456Z"', b'.123456Z","unknown":1,"unknown":1', "unknown"),
        (b'.123456Z"', b'.123456Z","_sig":"0"', "_sig"),
        (b',"createdAt"', b',"qu\\u0065ue":"slow","createdAt"', "queue"),
        (b',"createdAt"', b',"meta":{"a":1,"a":1},"createdAt"', "a"),
    ],
)
def test_a_member_named_twice_in_the_envelope_is_refused_though_signed(wire, forge, old, new, member):
    with pytest.raises(Malformed, match=f"the member '{member}' occurs twice"):
        wire.open(forge(old, new), "slow")


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'[{"b":{"a":1,"c":2,"a":3}}]',
        b'{"a":1,"\\u0061":2}',
        b'{"a" :1, "a"\n: 2}',
        b'{"x":"k",":a":1,":a":2}',
        b'{"":1,"":2}',
    ],
)
def test_the_payload_is_not_searched_for_members_named_twice(wire, forge, payload):
    canonical, spaced = forge(b'{"month":6}', payload), forge(b'{"month":6},', payload + b" , ")

    assert bytes(wire.open(canonical, "slow").payload) == bytes(wire.open(spaced, "slow").payload) == payload


@pytest.mark.parametrize(
    "payload",
    [
        b'[{"a":1},{"a":2}]',
        b'{"a":{"a":{"a":1}}}',
        b'{"a":"a","b":"a"}',
        b'{"text":"\\"a\\":1,\\"a\\":2"}',
        b'{"queue":1,"v":2,"_sig":"x"}',
    ],
)
def test_the_same_name_in_different_objects_is_fine(wire, with_payload, payload):
    assert bytes(wire.open(with_payload(payload), "slow").payload) == payload


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"queue":"slow"', b' "queue" : "slow" '),
        (b',"createdAt"', b',\n\t"createdAt"'),
        (b'{"month":6}', b' { "month" : 6 } '),
        (b'"queue":"slow"', b'"queue":"\\u0073low"'),
        (b',"createdAt"', b',"fromTheFuture":{"a":[1]},"createdAt"'),
    ],
)
def test_another_writer_may_space_escape_and_add_as_long_as_it_signs(wire, forge, old, new):
    assert wire.open(forge(old, new), "slow").queue == "slow"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"priority":5', b'"priority":"5"'),
        (b'"priority":5', b'"priority":null'),
        (b'"job":"report",', b""),
        (b'"queue":"slow"', b'"queue":["slow"]'),
        (b'"name":null', b'"name":7'),
        (b'"name":null', b'"name":"\xff"'),
        (b'"name":null', b'"name":"\\ud800"'),
        (b'"schedule":null', b'"schedule":"tomorrow"'),
        (b',"createdAt"', b',"backoff":{"strategy":"linear"},"createdAt"'),
        (b',"createdAt"', b',"backoff":{"jitter":7},"createdAt"'),
        (b',"createdAt"', b',"timeout":NaN,"createdAt"'),
    ],
)
def test_a_signed_message_of_the_wrong_shape_is_refused(wire, forge, old, new):
    with pytest.raises(Malformed, match="the message is not an envelope"):
        wire.open(forge(old, new), "slow")


@pytest.mark.parametrize(
    "payload",
    [b"NaN", b"Infinity", b"-Infinity", b"", b"1 2", b"[1,]", b"01", b"'a'", b"{a:1}", b'"\n"', b'"\\ud800"', b"tru"],
)
def test_a_signed_payload_that_is_not_json_is_refused(wire, with_payload, payload):
    with pytest.raises(Malformed):
        wire.open(with_payload(payload), "slow")


@pytest.mark.parametrize(
    "payload",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b"[" * 65 + b'"' + b'\\"' * 50_000,
        b'{},"new":{' + b",".join(b'"%d":1' % number for number in range(15_000)) + b',"0":1}',
        b'{},"new":[' + b'{"a":{}},' * 20_000 + b'{"a":1,"a":1}]',
        b'{},"new":' + b'{"a":' * 60 + b'"' + b"x" * 250_000 + b'","a":1' + b"}" * 60,
    ],
)
def test_a_message_made_to_exhaust_the_reader_is_refused_fast(wire, with_payload, payload):
    message = with_payload(payload)
    begun = time.thread_time()

    with pytest.raises(Malformed):
        wire.open(message, "slow")

    assert time.thread_time() - begun < 1.0


def test_without_verification_a_wrong_signature_is_let_through(key, sealed):
    trusting = Wire(Ring([key], verify=False))

    assert trusting.open(sealed[:-3] + b'0"}', "slow").job == "report"


def test_without_verification_a_message_without_a_signature_is_let_through(key, sealed):
    trusting = Wire(Ring([key], verify=False))

    for end in (b"}", b',"_sig":null}', b',"_sig":""}'):
        assert trusting.open(sealed[: sealed.index(b',"_sig"')] + end, "slow").job == "report"


def test_without_verification_the_queue_is_still_compared(key, sealed):
    trusting = Wire(Ring([key], verify=False))

    with pytest.raises(BadSignature):
        trusting.open(sealed, "admin")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Malformed, "malformed"),
        (BadSignature, "bad_signature"),
        (UnknownKey, "unknown_key"),
        (UnsupportedVersion, "unsupported_version"),
    ],
)
def test_each_rejection_has_the_word_kept_with_the_dead_letter(error, reason):
    assert error("").reason == reason


LONG = b'"' + b"x" * 256 + b'"'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"job":"report"', b'"job":' + LONG),
        (b'"name":null', b'"name":' + LONG),
        (b'"identifier":"id-1"', b'"identifier":' + LONG),
        (b'"idempotencyKey":null', b'"idempotencyKey":' + LONG),
        (b'"priority":5', b'"priority":10'),
        (b'"priority":5', b'"priority":-1'),
        (b'"priority":5', b'"priority":99999999999999999999999'),
        (b'"maxRetries":0', b'"maxRetries":-1'),
        (b',"createdAt"', b',"timeout":0,"createdAt"'),
        (b',"createdAt"', b',"maxCrashes":-1,"createdAt"'),
        (b',"createdAt"', b',"audience":' + LONG + b',"createdAt"'),
    ],
)
def test_a_key_holder_is_held_to_the_bounds_of_jobs(wire, forge, old, new):
    with pytest.raises(Malformed, match="not an envelope"):
        wire.open(forge(old, new), "slow")


def test_a_payload_of_too_many_items_is_refused(wire, with_payload):
    with pytest.raises(Malformed, match="more than 50000 members"):
        wire.open(with_payload(b"[" + b"1," * 60_000 + b"1]"), "slow")
