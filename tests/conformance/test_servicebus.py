"""The Service Bus backend keeps the promises that the service can carry.

It runs on the emulator, or on the namespace whose connection string is in TEST_SERVICEBUS: that needs the queues
`mail` and `reports`, with a lock duration of at least 20 s, and they are emptied.
"""

import os
from contextlib import nullcontext

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode, ServiceBusSubQueue

from tenure.backends.servicebus import receiver
from tenure.backends.url import open_backend
from tenure.testing.conformance import BackendConformance
from tests.conformance.broker_clock import BrokerClock
from tests.support.servicebus import Emulator

QUEUES = ("mail", "reports")
# One lease of these tests must get the messages of both queues: it waits longer than a worker would.
PATIENT_TESTS = (
    "test_queues_are_served_in_the_order_they_are_named",
    "test_a_lease_never_exceeds_its_limit",
    "test_grants_of_two_queues_are_settled_together",
)
# The SDK leaves the sockets of lost connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def emulator():
    real = os.environ.get("TEST_SERVICEBUS")
    with nullcontext() if real else Emulator(*QUEUES, lock=20.0) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def address(emulator):
    return emulator.connection_string if emulator else os.environ["TEST_SERVICEBUS"]


@pytest.fixture(scope="module")
def broker_clock():
    return BrokerClock()


@pytest.fixture(scope="module")
def warm(address, broker_clock):
    """One backend for all tests: opening links takes longer than most of them."""
    backend = open_backend(f"servicebus:{address}?queues={','.join(QUEUES)}", broker_clock)
    backend.lease(QUEUES, limit=1, seconds=1.0)
    yield backend
    backend.close()


class TestServiceBus(BackendConformance):
    capabilities = frozenset({"dead_letters", "Shared"})
    lacks = frozenset({"UniqueIds", "LingeringLeases", "Places", "AddedLetters"})
    expected_skips = 217

    @pytest.fixture
    def clock(self, broker_clock):
        return broker_clock

    @pytest.fixture
    def url(self, address):
        return f"servicebus:{address}"

    @pytest.fixture
    def backend(self, request, warm, emulator, address, monkeypatch):
        if request.node.originalname in PATIENT_TESTS:
            monkeypatch.setattr(receiver, "_RECEIVE_TIMEOUT", 5.0)
        yield warm
        for entity in warm._namespace.opened():
            entity.pause()
        warm._locks._held.clear()
        if emulator:
            emulator.empty()
        else:
            empty(address)


def empty(address):
    """Receive and delete, and cancel what is scheduled."""
    with ServiceBusClient.from_connection_string(address) as client:
        for queue in QUEUES:
            for part in (None, ServiceBusSubQueue.DEAD_LETTER):
                mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
                with client.get_queue_receiver(queue, sub_queue=part, receive_mode=mode) as receiver:
                    while receiver.receive_messages(max_message_count=500, max_wait_time=1):
                        pass
                    waiting = [message.sequence_number for message in receiver.peek_messages(250)]
            if waiting:
                with client.get_queue_sender(queue) as sender:
                    sender.cancel_scheduled_messages(waiting)
