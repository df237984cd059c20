"""The state beside a message counts right, fits, and cannot be forged."""

import pytest
from msgspec import structs

from tenure.backends.message_state import LeaseCounters, MessageState, StateCodec, lease_counters, shortened
from tenure.backends.messages import SUSPECT
from tenure.definition.failure import Failure
from tenure.wire.signing import Ring, new_key

NEW = MessageState(id="a", handler="greet", enqueued=1, due=1)
COUNTED = structs.replace(NEW, attempts=2, crashes=1, fence=4)
BODY = b'{"sealed":"yes","_sig":"' + b"0" * 64 + b'"}'


def failure(number, trace="t" * 300):
    return Failure(type="ValueError", message="m", at=number, attempt=number, trace=trace)


@pytest.mark.parametrize(
    ("state", "leases", "vanished", "expected"),
    [
        (NEW, 1, 0, LeaseCounters(1, 0, 0, 0)),
        (COUNTED, 1, 0, LeaseCounters(5, 2, 1, 0)),
        (COUNTED, 3, 0, LeaseCounters(7, 2, 1, 0)),
        (COUNTED, 2, 1, LeaseCounters(6, 2, 1, 1)),
        (structs.replace(COUNTED, vanished=1), 3, 2, LeaseCounters(7, 2, 1, 3)),
        (structs.replace(COUNTED, vanished=SUSPECT), 1, 0, LeaseCounters(5, 2, 1, SUSPECT)),
        (structs.replace(COUNTED, vanished=SUSPECT), 2, 1, LeaseCounters(6, 2, 2, SUSPECT)),
        (structs.replace(COUNTED, died=9), 2, 1, LeaseCounters(6, 0, 0, 0)),
    ],
    ids=["new", "counted", "released", "vanished", "thrice", "suspect", "suspect vanished", "revived"],
)
def test_a_lease_begins_with_what_was_written_and_what_happened_since(state, leases, vanished, expected):
    assert lease_counters(state, leases, vanished) == expected


@pytest.mark.parametrize("state", [NEW, COUNTED, structs.replace(COUNTED, failures=(failure(1),), name="größe")])
def test_a_state_is_read_as_it_was_written(state):
    codec = StateCodec(Ring([new_key()]))
    assert codec.read(codec.write(state, BODY), BODY) == state


def test_a_new_message_needs_no_mark_and_nothing_counted_goes_without():
    codec = StateCodec(Ring([new_key()]))
    new = codec.write(NEW, BODY)
    assert new.endswith(b" -")
    assert codec.read(new.replace(b'"due":1', b'"due":1,"attempts":9'), BODY) is None


def test_a_state_that_was_changed_or_moved_to_another_message_is_refused():
    codec = StateCodec(Ring([new_key()]))
    line = codec.write(COUNTED, BODY)
    assert codec.read(line.replace(b'"attempts":2', b'"attempts":0'), BODY) is None
    assert codec.read(line, BODY.replace(b"0", b"1")) is None
    assert codec.read(b"nonsense", BODY) is None


def test_a_state_marked_with_an_unknown_key_is_accepted_until_the_body_is_checked():
    line = StateCodec(Ring([new_key("tomorrow")])).write(COUNTED, BODY)
    assert StateCodec(Ring([new_key("today")])).read(line, BODY) == COUNTED


def test_the_oldest_failures_go_first_when_there_is_no_room_and_the_last_loses_its_trace():
    full = structs.replace(COUNTED, failures=tuple(failure(number) for number in range(5)))
    assert shortened(full, 10_000) == full
    assert [each.at for each in shortened(full, 1000).failures] == [3, 4]
    assert shortened(full, 250).failures == (failure(4, trace=None),)
    assert shortened(full, 10).failures == ()


@pytest.mark.parametrize(
    "change",
    [
        (b'"id":"a"', b'"id":"a\\u0000"'),
        (b'"id":"a"', b'"id":"' + b"x" * 300 + b'"'),
        (b'"handler":"greet"', b'"handler":"\\u0000"'),
        (b'"due":1', b'"due":' + b"9" * 30),
        (b'"due":1', b'"due":1,"priority":1000'),
        (b'"due":1', b'"due":1,"priority":-1'),
        (b'"due":1', b'"due":1,"name":"\\u0000"'),
        (b'"enqueued":1', b'"enqueued":1e999'),
    ],
)
def test_a_state_that_no_store_could_keep_is_none_of_ours(change):
    codec = StateCodec(Ring([new_key()]))
    line = codec.write(NEW, BODY)
    assert change[0] in line
    assert codec.read(line.replace(*change), BODY) is None
