"""Levels, members and repeated members of a message as JSON: what is counted in bytes is what a decoder builds."""

import gc
import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure import Job
from tenure.errors import InvalidPayload, Malformed
from tenure.wire.envelope import Wire
from tenure.wire.json_limits import (
    MAX_DEPTH,
    MAX_MEMBERS,
    check_depth,
    check_limits,
    check_members,
    refuse_repeated_members,
)
from tenure.wire.signing import Key, Ring

names = st.text(alphabet='ab:," \\{}[]\n', max_size=4)
texts = st.text(alphabet='ab:,"{}[]\\ ', max_size=8)
spaces = st.sampled_from(["", " ", "\n", "\t "])


@st.composite
def objects(draw, inner):
    members = draw(st.lists(st.tuples(names, inner), max_size=4))
    written = [f"{json.dumps(name)}{draw(spaces)}:{draw(spaces)}{value}" for name, value in members]
    return "{" + ",".join(written) + "}"


@st.composite
def arrays(draw, inner):
    return "[" + ",".join(draw(st.lists(inner, max_size=4))) + "]"


documents = st.recursive(
    texts.map(json.dumps) | st.sampled_from(["1", "null", "true", "-1.5e3"]),
    lambda inner: objects(inner) | arrays(inner),
    max_leaves=12,
)


def is_refused(check, body):
    try:
        check(body)
    except Malformed:
        return True
    return False


def repeats_a_member(document):
    """The answer of the standard library: whether any object names a member twice."""
    repeated = []

    def look(pairs):
        repeated.append(len(dict(pairs)) < len(pairs))

    json.loads(document, object_pairs_hook=look)
    return any(repeated)


@given(documents)
@example('{"x":"k",":a":1,":a":2}')
@example('["k",{":a":1,"b":2,":a":3}]')
@example('{"a":1,"\\u0061":2}')
@example('{"a\\"":1,"a\\"":2}')
@example('{"a":{"b":1},"a":{}}')
def test_a_repeated_member_is_refused_exactly_when_there_is_one(document):
    assert is_refused(refuse_repeated_members, document.encode()) == repeats_a_member(document)


@given(documents)
@example('{"a":1,"a":2}')
def test_a_payload_may_repeat_members_in_a_message_and_in_its_followers(document):
    payload = document.encode()
    follower = b'{"message":{"payload":%s,"queue":1},"delay":1}' % payload

    refuse_repeated_members(b'{"payload":%s,"callbacks":{"then":[%s],"chain":[ %s ]}}' % (payload, follower, follower))


@pytest.mark.parametrize(
    "message",
    [
        '{"meta":{"payload":%s}}',
        '{"meta":{"callbacks":{"then":[{"message":{"payload":%s}}]}}}',
        '{"callbacks":{"then":[{"message":{"meta":{"message":{"payload":%s}}}}]}}',
        '{"callbacks":{"payload":%s}}',
        '{"callbacks":{"then":[{"payload":%s}]}}',
        '{"unknown":[1,[%s]]}',
    ],
)
def test_what_is_only_called_a_payload_is_checked(message):
    with pytest.raises(Malformed, match="the member 'a' occurs twice"):
        refuse_repeated_members((message % '{"b":1,"a":1,"a":2}').encode())


@pytest.mark.parametrize("number", [b"1" + b"0" * 5000, b"-" + b"9" * 5000, b"1e99999"])
def test_numbers_do_not_matter_to_repeated_members(number):
    refuse_repeated_members(b'{"a":%s,"b":1}' % number)

    with pytest.raises(Malformed, match="occurs twice"):
        refuse_repeated_members(b'{"a":%s,"a":1}' % number)


@pytest.mark.parametrize("body", [b"[" * 64 + b"]" * 64, b'{"a":' * 64 + b"1" + b"}" * 64, b"[]" * 1000, b"[[]]" * 500])
def test_64_levels_are_read(body):
    check_depth(body)


@pytest.mark.parametrize("body", [b"[" * 65 + b"]" * 65, b'{"a":' * 65 + b"1" + b"}" * 65, b"[{" * 33 + b"}]" * 33])
def test_65_levels_are_refused(body):
    with pytest.raises(Malformed, match="nested deeper than 64 levels"):
        check_depth(body)


@pytest.mark.parametrize("text", [b"[" * 1000, b'\\"' + b"[" * 1000, b'\\\\\\"' + b"{" * 1000])
def test_brackets_inside_text_do_not_count(text):
    check_depth(b'["' + text + b'"]')


def test_brackets_after_an_escaped_backslash_do_count():
    with pytest.raises(Malformed):
        check_depth(b'["\\\\",' + b"[" * 65 + b"]" * 65 + b"]")


def depth_of(body):
    """The deepest level, read byte by byte."""
    depth = deepest = 0
    in_text = is_escaped = False
    for byte in body:
        if in_text:
            in_text, is_escaped = is_escaped or byte != ord('"'), not is_escaped and byte == ord("\\")
        elif byte == ord('"'):
            in_text = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


@given(documents, st.integers(0, 70))
def test_a_document_is_refused_exactly_when_it_is_nested_too_deeply(document, levels):
    body = b"[" * levels + b",".join([document.encode()] * 65) + b"]" * levels

    assert is_refused(check_depth, body) == (depth_of(body) > MAX_DEPTH)


@given(st.sampled_from([b"[%s]", b'{"a":%s}']), st.integers(60, 70), st.integers(0, 5000))
@example(b"[%s]", 65, 5000)
@example(b'{"a":%s}', 65, 5000)
@example(b'{"a":%s}', 64, 5000)
def test_the_levels_of_short_and_of_long_messages_are_limited(level, levels, length):
    body = b'"%s"' % (b"x" * length)
    for _ in range(levels):
        body = level % body

    assert is_refused(check_limits, body) == (levels > MAX_DEPTH)


@given(st.text('[]{}"\\,:a', max_size=80), st.integers(0, 70))
def test_no_bytes_that_pass_lead_a_decoder_deeper(text, levels):
    body = b"[" * levels + text.encode() * 10

    assert is_refused(check_depth, body) or depth_of(body[: text_fault(body)]) <= MAX_DEPTH


def text_fault(body):
    """Where a decoder stops at the latest: at a backslash outside a text."""
    in_text = is_escaped = False
    for position, byte in enumerate(body):
        if not in_text and byte == ord("\\"):
            return position
        if in_text:
            in_text, is_escaped = is_escaped or byte != ord('"'), not is_escaped and byte == ord("\\")
        else:
            in_text = byte == ord('"')
    return len(body)


def test_as_many_members_and_items_as_are_allowed_pass():
    check_members(b"[" + b"1," * (MAX_MEMBERS - 1) + b"1]")


@pytest.mark.parametrize("item", [b"1", b'{"a":1}', b'"a,b"'])
def test_more_members_and_items_are_refused(item):
    with pytest.raises(Malformed, match="more than 50000 members"):
        check_members(b"[" + (item + b",") * MAX_MEMBERS + item + b"]")


def test_commas_in_texts_are_no_members():
    check_members(b'["' + b"," * (2 * MAX_MEMBERS) + b'"]')


def calls_of(act):
    """How many functions are called, those written in C included."""
    calls = []
    before = sys.getprofile()
    gc.disable()  # a collection would call finalizers of other tests
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event in ("call", "c_call") else None)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return len(calls)


@pytest.mark.parametrize("item", [{"name": "a", "text": "b"}, {"a": {"b": ["c", "\\", "[{"]}}])
def test_the_work_for_a_message_does_not_grow_with_its_members_and_brackets(wire, item):
    many = json.dumps([item] * 1000).encode()
    few = json.dumps([*[item] * 100, "x" * (len(many) * 9 // 10)]).encode()
    job = Job(handler="report")
    opened = [wire.seal(job, payload, "id-1", 0) for payload in (few, many)]

    sealing = [calls_of(lambda payload=payload: wire.seal(job, payload, "id-1", 0)) for payload in (few, many)]
    opening = [calls_of(lambda sealed=sealed: wire.open(sealed, "default")) for sealed in opened]

    assert sealing[0] == sealing[1] < 100
    assert opening[0] == opening[1] < 100


SHORTEST = (
    b'{"v":1,"kid":"%s","job":"a","payload":%s,"queue":"q","priority":0,"maxRetries":0,"attempts":0,"name":"",'
    b'"identifier":"","idempotencyKey":"","schedule":null}'
)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("levels", [63, 64])
def test_the_shortest_message_is_checked_too(verify, levels):
    ring = Ring([Key("k", bytes(range(32)))], verify=verify)
    body = SHORTEST % (b"k", b"[" * levels + b"]" * levels)
    message = ring.seal(body) if verify else body

    assert is_refused(lambda sealed: Wire(ring).open(sealed, "q"), message) == (levels == 64)


@given(documents, st.integers(0, 70))
def test_what_is_sealed_is_what_is_opened(document, levels):
    ring = Ring([Key("k", bytes(range(32)))])
    wire, payload = Wire(ring), b"[" * levels + document.encode() + b"]" * levels
    job = Job(handler="a", queue="q")
    try:
        sealed = wire.seal(job, payload, "", 0)
    except InvalidPayload:
        sealed = None

    assert (sealed is None) == is_refused(lambda body: wire.open(body, "q"), ring.seal(SHORTEST % (b"k", payload)))
    assert (sealed is None) == (depth_of(payload) + 1 > MAX_DEPTH)
