"""The filter of lists of jobs: what people write, what the address has, and what is wrong with it."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.app.dashboard.filters import (
    KEYS,
    JobQuery,
    Term,
    fault_of,
    from_canonical,
    from_parameters,
    has_pattern,
    moment_of,
    parse,
)
from tenure.errors import InvalidFilter


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ""),
        ("state:ready,parked", "state=ready&state=parked"),
        ("state:parked,ready", "state=ready&state=parked"),
        ("state:leased", "state=running"),
        ("STATE:Running", "state=running"),
        ("queue:emails handler:send_*", "queue=emails&handler=send_*"),
        ("handler:send_* queue:emails", "queue=emails&handler=send_*"),
        ("queue:b queue:a", "queue=a&queue=b"),
        ("tag:tenant=17", "tag=tenant%3D17"),
        ('tag:"a,b",c', "tag=a%2Cb&tag=c"),
        ('reason:timeout error:"connection refused"', "reason=timeout&error=connection%20refused"),
        ("-handler:resize_image", "-handler=resize_image"),
        ("-queue:a queue:b*", "queue=b*&-queue=a"),
        ("since:2h until:2026-11-15T14:00", "since=2h&until=2026-11-15T14%3A00"),
        ("connection refused", "text=connection&text=refused"),
        ('"connection refused" -done', "text=connection%20refused&-text=done"),
        ('"say \\"hi\\" \\\\"', "text=say%20%22hi%22%20%5C"),
        ('"not closed', "text=not%20closed"),
        ("12:30", "text=12%3A30"),
        ("-", "text=-"),
    ],
)
def test_what_people_write_has_one_address(text, address):
    query = parse(text)
    assert query.canonical() == address
    assert from_parameters(parse_qsl(address)) == query
    assert parse(str(query)) == query


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(str.strip)
terms = st.builds(
    Term,
    st.sampled_from([key for key in KEYS if key != "state"]),
    st.lists(words, min_size=1, max_size=3).map(tuple),
    st.booleans(),
)


@given(st.lists(terms, max_size=5))
def test_every_filter_survives_its_text_and_its_address(given_terms):
    query = JobQuery().merged(JobQuery(tuple(given_terms)))
    assert from_parameters(parse_qsl(query.canonical())) == query
    assert parse(str(query)) == query


@given(st.text(max_size=60))
def test_any_text_is_read_as_some_filter(text):
    query = parse(text)
    fault_of(query)
    assert parse(str(query)) == query


def test_a_typed_filter_is_added_to_the_one_of_the_page():
    page = parse("queue:invoices since:2h refused")
    merged = page.merged(parse("queue:images since:1d again"))
    assert str(merged) == "queue:images,invoices since:1d refused again"


def test_a_term_is_taken_out_or_replaced():
    query = parse("queue:a -queue:b state:dead")
    assert str(query.without(query.terms[0])) == "queue:a -queue:b"
    assert str(query.replaced("state", "ready")) == "state:ready queue:a -queue:b"
    assert str(query.replaced("queue")) == "state:dead"


def test_the_states_are_those_named_and_not_refused():
    assert parse("state:dead,ready").states() == ("ready", "dead")
    assert parse("-state:done,dead,cancelled,expired").states() == ("ready", "delayed", "parked", "leased")
    assert parse("queue:a").states() == ()


@pytest.mark.parametrize(
    ("text", "says", "suggestion", "query"),
    [
        ("state:ded queue:a", "Unknown state “ded”.", "dead", "state=dead&queue=a"),
        ("state:ready,runing", "Unknown state “runing”.", "running", "state=ready&state=running"),
        ("sort:newst", "Unknown order “newst”.", "newest", "sort=newest"),
        ("quueue:emails", "There is no key “quueue”.", "queue:emails", "queue=emails"),
        (
            "ConnectionError:refused",
            "no key “connectionerror”",
            '"connectionerror:refused"',
            "text=connectionerror%3Arefused",
        ),
    ],
)
def test_a_mistake_comes_with_a_suggestion(text, says, suggestion, query):
    fault = fault_of(parse(text))
    assert fault is not None
    assert says in fault.text
    assert (fault.suggestion, fault.query) == (suggestion, query)
    assert fault_of(from_canonical(fault.query)) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("state:xyz", "Unknown state “xyz”. Known are ready, delayed, parked, running"),
        ("sate:x", "There is no key “sate”. Known are state, queue"),
        ("queue:", "queue has no value: write queue:emails"),
        ("since:yesterday", "“yesterday” is not a time: write since:2h"),
        ("until:-2h", "is not a time"),
        ("since:1h,2h", "since takes one value"),
        ("-since:1h", "since can not be excluded"),
        ("handler:send_*_now", "a * can stand only at the end"),
        ("id:abc", "too short for an id"),
        ("tag:a\0b", "characters that no job can have"),
        (" ".join(f"word{number}" for number in range(101)), "The filter is too long"),
        ("x" * 4001, "The filter is too long"),
    ],
)
def test_a_mistake_is_named(text, says):
    fault = fault_of(parse(text))
    assert fault is not None
    assert says in fault.text
    with pytest.raises(InvalidFilter):
        from_canonical(parse(text).canonical())


@pytest.mark.parametrize(
    "text",
    ["state:ready", "since:90m until:1h", "since:2026-11-15", "id:0a6be2d9", "sort:longest", "-tag:a b", "queue:*"],
)
def test_a_good_filter_has_no_fault(text):
    assert fault_of(parse(text)) is None


def test_a_time_is_long_ago_or_an_instant():
    now = 1_800_000_000_000_000
    assert moment_of("2h", now) == now - 7_200_000_000
    assert moment_of("1970-01-01T00:00:01", now) == moment_of("1970-01-01T01:00:01+01:00", now) == 1_000_000
    with pytest.raises(ValueError, match="not a duration"):
        moment_of("soon", now)


def test_a_star_stands_for_the_rest():
    assert has_pattern("send_*", "send_welcome")
    assert has_pattern("*", "")
    assert not has_pattern("send_*", "resend_welcome")
    assert not has_pattern("send", "send_welcome")
    assert not has_pattern("*", None)
