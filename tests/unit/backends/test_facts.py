"""Facts: what is written beside a message counts right, fits, and cannot be forged."""

import pytest
from msgspec import structs

from tenure.backends.facts import Facts, Marker, Standing, fitting, standing
from tenure.definition.failure import Failure
from tenure.wire.signing import Ring, new_key

NEW = Facts(id="a", handler="greet", enqueued=1, due=1)
COUNTED = structs.replace(NEW, attempts=2, crashes=1, fence=4)
BODY = b'{"sealed":"yes","_sig":"' + b"0" * 64 + b'"}'


def failure(number, trace="t" * 300):
    return Failure(type="ValueError", message="m", at=number, attempt=number, trace=trace)


@pytest.mark.parametrize(
    ("facts", "leases", "vanished", "expected"),
    [
        (NEW, 1, 0, Standing(1, 0, 0, False)),
        (COUNTED, 1, 0, Standing(5, 2, 1, False)),
        (COUNTED, 3, 0, Standing(7, 2, 1, False)),
        (COUNTED, 2, 1, Standing(6, 2, 1, True)),
        (COUNTED, 3, 2, Standing(7, 2, 2, True)),
        (structs.replace(COUNTED, suspect=True), 1, 0, Standing(5, 2, 1, True)),
        (structs.replace(COUNTED, suspect=True), 2, 1, Standing(6, 2, 2, True)),
        (structs.replace(COUNTED, died=9), 2, 1, Standing(6, 0, 0, False)),
    ],
    ids=["new", "counted", "released", "vanished", "twice", "suspect", "suspect vanished", "revived"],
)
def test_a_lease_begins_with_what_was_written_and_what_happened_since(facts, leases, vanished, expected):
    assert standing(facts, leases, vanished) == expected


@pytest.mark.parametrize("facts", [NEW, COUNTED, structs.replace(COUNTED, failures=(failure(1),), name="größe")])
def test_facts_are_read_as_they_were_written(facts):
    marker = Marker(Ring([new_key()]))
    assert marker.read(marker.write(facts, BODY), BODY) == facts


def test_a_new_message_needs_no_mark_and_nothing_counted_goes_without():
    marker = Marker(Ring([new_key()]))
    new = marker.write(NEW, BODY)
    assert new.endswith(b" -")
    assert marker.read(new.replace(b'"due":1', b'"due":1,"attempts":9'), BODY) is None


def test_facts_that_were_changed_or_moved_to_another_message_are_refused():
    marker = Marker(Ring([new_key()]))
    line = marker.write(COUNTED, BODY)
    assert marker.read(line.replace(b'"attempts":2', b'"attempts":0'), BODY) is None
    assert marker.read(line, BODY.replace(b"0", b"1")) is None
    assert marker.read(b"nonsense", BODY) is None


def test_facts_marked_with_a_key_that_is_on_its_way_are_believed_until_the_body_is_judged():
    line = Marker(Ring([new_key("tomorrow")])).write(COUNTED, BODY)
    assert Marker(Ring([new_key("today")])).read(line, BODY) == COUNTED


def test_the_oldest_failures_go_first_when_there_is_no_room_and_the_last_loses_its_trace():
    full = structs.replace(COUNTED, failures=tuple(failure(number) for number in range(5)))
    assert fitting(full, 10_000) == full
    assert [each.at for each in fitting(full, 1000).failures] == [3, 4]
    assert fitting(full, 250).failures == (failure(4, trace=None),)
    assert fitting(full, 10).failures == ()
