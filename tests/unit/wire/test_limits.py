"""Depth and repeated members: the quick checks never contradict the exact ones."""

import json
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.errors import Malformed
from tenure.wire.envelope import (
    MAX_MEMBERS,
    check_depth,
    check_members,
    have_distinct_members,
    refuse_repeated_members,
)

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
def test_a_document_called_distinct_repeats_no_member(document):
    assert not (have_distinct_members(document.encode()) and repeats_a_member(document))


@given(documents)
def test_a_repeated_member_is_refused_exactly_when_there_is_one(document):
    try:
        refuse_repeated_members(document.encode())
        refused = False
    except Malformed:
        refused = True

    assert refused == repeats_a_member(document)


@pytest.mark.parametrize("document", [b'{"a":1,"b":2}', b"[]", b'"a"', b'[{"a":"b: a, a:"}]', b'{"a":[{"b":1}]}'])
def test_a_plain_document_is_called_distinct_without_parsing(document):
    assert have_distinct_members(document)


@pytest.mark.parametrize("number", [b"1" + b"0" * 5000, b"-" + b"9" * 5000, b"1e99999"])
def test_numbers_do_not_matter_to_repeated_members(number):
    refuse_repeated_members(b'{"a":%s,"b":1}' % number)


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


@given(st.binary(max_size=300))
def test_checking_the_depth_of_any_bytes_ends_in_yes_or_no(body):
    with suppress(Malformed):
        check_depth(body * 10)


def test_as_many_members_and_items_as_are_allowed_pass():
    check_members(b"[" + b"1," * (MAX_MEMBERS - 1) + b"1]")


@pytest.mark.parametrize("item", [b"1", b'{"a":1}', b'"a,b"'])
def test_more_members_and_items_are_refused(item):
    with pytest.raises(Malformed, match="more than 50000 members"):
        check_members(b"[" + (item + b",") * MAX_MEMBERS + item + b"]")


def test_commas_in_texts_are_no_members():
    check_members(b'["' + b"," * (2 * MAX_MEMBERS) + b'"]')
