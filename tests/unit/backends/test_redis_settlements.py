"""How settlements travel to Redis: in few commands with few arguments."""

import msgspec
import pytest

from tenure.backends.messages import Ack, Lease
from tenure.backends.redis.codec import decode_lease
from tenure.backends.redis.connections import Unconfirmed
from tenure.backends.redis.scripts import KeyNames, Scripts
from tenure.backends.redis.settlements import RedisSettlements
from tenure.clock import SystemClock
from tests.support.call_counter import calls_of


class RecordingClient:
    """Answers that every lease was held, and keeps the commands of each round trip."""

    def __init__(self):
        self.round_trips = []

    def ask(self, *command):
        self.round_trips.append([command])
        return []

    def ask_each(self, commands):
        self.round_trips.append(commands)
        return [[] for _ in commands]


@pytest.fixture
def client():
    return RecordingClient()


@pytest.fixture
def settlements(client):
    return RedisSettlements(Scripts(client, SystemClock()), KeyNames("tenure"), Unconfirmed(), None)


def leases(count, queue="q"):
    return [
        Lease(
            id=f"{queue}-{number}", queue=queue, body=b"", owner="me", fence=1, attempts=0, crashes=0, vanished=0,
            priority=5, due=0, token=(str(number), f"{number} 0 0 5 []"),
        )
        for number in range(count)
    ]  # fmt: skip


def test_one_ack_of_many_jobs_is_one_round_trip_with_one_argument_for_all(client, settlements):
    assert settlements.ack([Ack(lease=lease) for lease in leases(500)]) == []

    ((command,),) = client.round_trips
    assert len(command) == 7
    members, ids, tails = msgspec.msgpack.decode(command[-1])
    assert (len(members), len(ids), len(tails)) == (500, 500, 500)
    assert (members[7], ids[7]) == ("q-7:me:1:7", "q-7")
    assert tails[7] == '7 0 0 5 []\n[0,0,1,"me",0.0,null,null,null]'


def test_an_ack_makes_no_call_for_each_job(settlements):
    few, _ = calls_of(lambda: settlements.ack([Ack(lease=lease) for lease in leases(5)]))
    many, _ = calls_of(lambda: settlements.ack([Ack(lease=lease) for lease in leases(500)]))

    assert many == few


def test_acks_of_several_queues_and_states_are_one_round_trip(client, settlements):
    done = [Ack(lease=lease) for queue in "ab" for lease in leases(3, queue)]
    expired = [Ack(lease=lease, state="expired") for lease in leases(3, "c")]

    assert settlements.ack([*done, *expired]) == []

    (commands,) = client.round_trips
    assert [command[3] for command in commands] == ["tenure:{a}", "tenure:{b}", "tenure:{c}"]


def test_of_two_acks_on_one_lease_the_second_is_lost(client, settlements):
    first, second = leases(2)

    assert settlements.ack([Ack(lease=first), Ack(lease=second), Ack(lease=first)]) == [first]

    ((command,),) = client.round_trips
    assert msgspec.msgpack.decode(command[-1])[1] == ["q-0", "q-1"]


def test_a_text_of_several_lines_stays_one_outcome(client, settlements):
    settlements.ack([Ack(lease=lease, output="one\ntwo\u2028three") for lease in leases(2)])

    ((command,),) = client.round_trips
    *_, tails = msgspec.msgpack.decode(command[-1])
    assert [msgspec.json.decode(tail.split("\n")[1])[6] for tail in tails] == ["one\ntwo\u2028three"] * 2


def test_a_job_whose_labels_another_program_damaged_can_be_settled(client, settlements):
    lease = decode_lease(b"id", b"5", None, b'1 2 3 5 ["\xff",null]\nbody', "q", "me")

    assert (lease.fault, lease.body, lease.due) == (None, b"body", 3)
    assert settlements.ack([Ack(lease=lease)]) == []
