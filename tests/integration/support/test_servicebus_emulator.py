"""The emulator treats the real SDK as the documentation of the service says."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusServerBusyError,
)

from tests.support.servicebus import Emulator
from tests.support.waiting import WAIT_SECONDS

SHORT_LOCK = 1.0
# The SDK leaves the sockets of lost connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def emulator(request):
    with Emulator("mail", lock=getattr(request, "param", WAIT_SECONDS), most_deliveries=3, remember=60) as emulator:
        yield emulator


@pytest.fixture
def client(emulator):
    options = {"retry_total": 2, "retry_backoff_factor": 0.01}
    with ServiceBusClient.from_connection_string(emulator.connection_string, **options) as client:
        yield client


@pytest.fixture
def send(client):
    with client.get_queue_sender("mail") as sender:

        def send(*bodies, **fields):
            sender.send_messages([ServiceBusMessage(body, **fields) for body in bodies])

        yield send


@pytest.fixture
def receiver(client):
    with client.get_queue_receiver("mail") as receiver:
        yield receiver


def receive(receiver, count=1, wait=WAIT_SECONDS):
    return receiver.receive_messages(max_message_count=count, max_wait_time=wait)


def receive_all(receiver, count):
    """So many messages: the SDK returns fewer if the next one does not follow within 0.2 s."""
    found = []
    while len(found) < count:
        found += (more := receive(receiver, count - len(found)))
        assert more, f"only {len(found)} of {count} messages came"
    return found


def bodies(messages):
    return [b"".join(message.body) for message in messages]


def test_messages_arrive_in_their_order_whatever_their_size(send, receiver):
    sent = [b"one", b"", b"x" * 200_000, bytes(range(256))]
    for body in sent:
        send(body)
    assert bodies(receive_all(receiver, 4)) == sent


def test_a_batch_is_received_at_once(send, receiver):
    send(*[f"{number}" for number in range(100)])
    assert bodies(receive_all(receiver, 100)) == [b"%d" % number for number in range(100)]


def test_a_completed_message_is_gone(send, receiver, emulator):
    send("one")
    receiver.complete_message(receive(receiver)[0])
    assert not emulator.queues["mail"].messages


def test_an_abandoned_message_comes_back_with_its_count(send, receiver):
    send("one")
    (message,) = receive(receiver)
    receiver.abandon_message(message)
    (again,) = receive(receiver)
    assert (again.sequence_number, again.delivery_count) == (message.sequence_number, 1)


@pytest.mark.timing
@pytest.mark.parametrize("emulator", [SHORT_LOCK], indirect=True)
def test_a_lock_that_ran_out_is_lost_to_settling_and_renewing(send, receiver):
    send("one")
    (stale,) = receive(receiver)
    (again,) = receive(receiver)
    assert again.delivery_count == 1
    for verb in (receiver.complete_message, receiver.renew_message_lock):
        with pytest.raises(MessageLockLostError):
            verb(stale)
    receiver.complete_message(again)


@pytest.mark.timing
@pytest.mark.parametrize("emulator", [SHORT_LOCK], indirect=True)
def test_a_renewed_lock_holds(send, receiver):
    send("one")
    (message,) = receive(receiver)
    for _ in range(3):
        threading.Event().wait(SHORT_LOCK * 0.6)
        receiver.renew_message_lock(message)
    receiver.complete_message(message)


def test_dead_letters_keep_reason_description_and_properties(send, receiver, client):
    send("one", application_properties={"kept": "yes"})
    receiver.dead_letter_message(receive(receiver)[0], reason="failed", error_description="why")
    with client.get_queue_receiver("mail", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as graves:
        (dead,) = receive(graves)
        assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("failed", "why")
        assert dead.application_properties[b"kept"] == b"yes"
        graves.complete_message(dead)


def test_too_many_deliveries_end_among_the_dead_letters(send, receiver, client):
    send("one")
    for _ in range(3):
        receiver.abandon_message(receive(receiver)[0])
    with client.get_queue_receiver("mail", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as graves:
        assert receive(graves)[0].dead_letter_reason == "MaxDeliveryCountExceeded"


@pytest.mark.timing
def test_scheduled_messages_come_when_due_and_can_be_cancelled(send, receiver, client):
    due = datetime.now(UTC) + timedelta(seconds=2)
    send("later", scheduled_enqueue_time_utc=due)
    with client.get_queue_sender("mail") as sender:
        number = sender.schedule_messages(ServiceBusMessage("never"), due)
        sender.cancel_scheduled_messages(number)
    assert receive(receiver, wait=0.3) == []
    assert bodies(receive(receiver, 5)) == [b"later"]


def test_a_repeated_id_is_dropped(send, receiver):
    send("one", message_id="a")
    send("two", message_id="a")
    send("three", message_id="b")
    assert bodies(receive_all(receiver, 2)) == [b"one", b"three"]


def test_peeking_takes_no_lock(send, receiver):
    send("one", "two")
    assert bodies(receiver.peek_messages(5)) == [b"one", b"two"]
    assert bodies(receive_all(receiver, 2)) == [b"one", b"two"]


def test_messages_can_be_received_and_deleted_in_one(send, client, emulator):
    send("one")
    with client.get_queue_receiver("mail", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert bodies(receive(receiver)) == [b"one"]
    assert not emulator.queues["mail"].messages


def test_a_closed_receiver_gives_back_what_it_had_not_handed_out(send, receiver, client):
    receive(receiver, 5, wait=0.2)  # its credit stays with the broker
    send("one", "two")
    threading.Event().wait(0.2)  # so that they are on their way to it
    receiver.close()
    with client.get_queue_receiver("mail") as other:
        assert [message.delivery_count for message in receive_all(other, 2)] == [0, 0]


def test_unknown_entities_and_wrong_keys_are_refused(client, emulator):
    with pytest.raises(MessagingEntityNotFoundError), client.get_queue_receiver("nothing"):
        pass
    wrong = emulator.connection_string.replace("SharedAccessKey=c", "SharedAccessKey=d")
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as stranger,
        pytest.raises(ServiceBusAuthenticationError),
        stranger.get_queue_receiver("mail"),
    ):
        pass


def test_throttling_is_retried_and_reported_when_it_lasts(send, emulator, receiver):
    emulator.faults.plan("send", "busy")
    send("one")
    emulator.faults.plan("send", "busy", times=5)
    with pytest.raises(ServiceBusServerBusyError):
        send("two")
    assert bodies(receive(receiver, 5)) == [b"one"]


def test_a_cut_connection_is_opened_again(send, emulator, receiver):
    emulator.faults.plan("send", "cut")
    send("one")
    emulator.cut()
    assert bodies(receive(receiver, 5)) == [b"one"]


def test_locks_can_be_lost_on_demand(send, emulator, receiver):
    send("one")
    (message,) = receive(receiver)
    emulator.lose_locks("mail")
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)
