"""What is special to Service Bus: locks that the service ends, copies, throttling, idle receivers, levels."""

import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace

import pytest
from azure.core.exceptions import ServiceRequestError

from tenure import Tenure
from tenure.backends.messages import Abandon, Ack, Nack
from tenure.backends.servicebus import receiver
from tenure.backends.servicebus.entity import Entity, Limits
from tenure.backends.servicebus.namespace import limits_fact, read_limits
from tenure.backends.url import open_backend, without_secrets
from tenure.clock import SystemClock
from tenure.definition.failure import Failure
from tenure.errors import BackendError, BackendUnavailable, InvalidPayload, PartialPut, UnknownBackend
from tenure.testing.conformance.messages import take_all
from tenure.wire.signing import new_key
from tests.support.servicebus import Emulator
from tests.support.waiting import WAIT_SECONDS

QUEUE = "mail"
# The SDK leaves the sockets of lost connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def emulator():
    with Emulator(QUEUE, "mail.p8", "mail.p2", lock=30.0, most_deliveries=3, remember=60) as emulator:
        yield emulator


@pytest.fixture
def opened(emulator):
    """Open a backend on the emulator: opened("?levels=8,2")."""
    backends = []

    def open_it(options=""):
        backends.append(open_backend(f"servicebus:{emulator.connection_string}{options}", SystemClock()))
        return backends[-1]

    yield open_it
    for backend in backends:
        backend.close()


@pytest.fixture
def backend(opened):
    return opened()


def lease(backend, limit=1, seconds=3.0, wait=0.0):
    return backend.lease([QUEUE], limit=limit, seconds=seconds, wait=wait)


def put_and_lease(backend, message, *numbers):
    backend.put([message(number) for number in numbers])
    return take_all(backend, len(numbers))


def ids(leases):
    return [each.id for each in leases]


def stored(emulator, queue=QUEUE):
    return len(emulator.queues[queue].messages)


class TestLocks:
    def test_a_lock_that_the_service_ended_is_lost_and_the_others_are_not(self, backend, message, emulator):
        (lost,) = put_and_lease(backend, message, 1)
        emulator.lose_locks(QUEUE)
        backend.put([message(2)])
        again, held = take_all(backend, 2)
        assert (again.id, again.vanished, again.fence) == (lost.id, 1, 2)
        assert backend.renew([lost, held, again], seconds=3) == [lost]
        assert backend.ack([Ack(lease=lost), Ack(lease=held), Ack(lease=again)]) == [lost]
        assert stored(emulator) == 0

    def test_leases_outlive_a_lost_connection(self, backend, message, emulator):
        leases = put_and_lease(backend, message, 1, 2)
        emulator.cut()
        assert backend.renew(leases, seconds=3) == []
        assert backend.ack([Ack(lease=each) for each in leases]) == []
        assert stored(emulator) == 0

    def test_what_could_not_be_settled_while_the_service_is_busy_is_settled_later(self, backend, message, emulator):
        (held,) = put_and_lease(backend, message, 1)
        emulator.faults.plan("manage", "busy", times=3)
        with pytest.raises(BackendUnavailable, match="busy"):
            backend.ack([Ack(lease=held)])
        assert backend.ack([Ack(lease=held)]) == []
        assert stored(emulator) == 0

    def test_a_lock_shorter_than_the_lease_is_refused_with_what_to_do(self, backend, message):
        backend.put([message(1)])
        with pytest.raises(BackendError, match=r"lasts \d+ s, less than a lease of 60 s; make its lock"):
            lease(backend, seconds=60, wait=WAIT_SECONDS)
        assert [each.vanished for each in take_all(backend, 1)] == [0]

    def test_a_receiver_that_nobody_asks_takes_its_credit_back_and_swallows_nothing(
        self, opened, message, emulator, eventually
    ):
        idle, other = opened(), opened()
        assert lease(idle, 10) == []
        eventually(lambda: not any(outlet.credit for outlet in emulator.queues[QUEUE].outlets))
        other.put([message(1)])
        (taken,) = lease(other, wait=WAIT_SECONDS)
        assert (taken.id, taken.vanished, taken.fence) == (message(1).id, 0, 1)


class TestCopies:
    def test_duplicate_detection_never_drops_a_retry(self, backend, message):
        put_and_lease(backend, message, 1)
        (held,) = backend._locks.expired(time.monotonic() + 60, [QUEUE])
        held = held.lease
        for attempts in (1, 2, 3):
            assert backend.nack([Nack(lease=held, charge="attempt")]) == []
            (held,) = lease(backend, wait=WAIT_SECONDS)
            assert held.attempts == attempts

    def test_a_copy_that_is_sent_again_after_a_crash_is_dropped(self, backend, message, emulator, monkeypatch):
        (held,) = put_and_lease(backend, message, 1)

        def die(*_):
            raise BackendUnavailable("the process died here")

        with monkeypatch.context() as patch:
            patch.setattr(Entity, "complete", die)
            with pytest.raises(BackendUnavailable):
                backend.nack([Nack(lease=held, charge="attempt")])
        assert stored(emulator) == 2
        assert backend.nack([Nack(lease=held, charge="attempt")]) == []
        assert stored(emulator) == 1
        assert [each.attempts for each in take_all(backend, 1)] == [1]

    def test_a_postponed_message_waits_with_the_service(self, backend, message, emulator):
        (held,) = put_and_lease(backend, message, 1)
        backend.nack([Nack(lease=held, delay=60)])
        assert [each.state for each in emulator.queues[QUEUE].messages.values()] == ["scheduled"]

    def test_a_dead_letter_keeps_as_many_failures_as_fit(self, backend, message):
        (held,) = put_and_lease(backend, message, 1)
        failure = Failure(type="ValueError", message="m" * 2000, at=1, attempt=1, trace="t" * 8000)
        backend.nack([Nack(lease=held, charge="attempt", failure=failure)])
        (held,) = take_all(backend, 1)
        backend.abandon([Abandon(lease=held, reason="failed", charge="attempt", failure=failure)])
        (letter,) = backend.dead_letters.page()
        assert (letter.reason, letter.attempts, len(letter.failures)) == ("failed", 2, 1)

    def test_vanished_holders_are_counted_by_us_before_the_service_gives_up(self, backend, message, emulator):
        backend._namespace.entities(QUEUE)[0].limits = Limits(deliveries=3)  # as the emulator has it, and tells nobody
        backend.put([message(1)])
        vanished, fences = [], []
        for _ in range(5):
            (held,) = lease(backend, wait=WAIT_SECONDS)
            vanished.append(held.vanished)
            fences.append(held.fence)
            emulator.lose_locks(QUEUE)
        assert vanished == sorted(vanished)
        assert vanished[-1] >= 3
        assert fences == sorted(set(fences))
        assert backend.dead_letters.page() == []

    def test_what_the_service_dead_lettered_itself_is_listed_with_its_reason(self, backend, message, emulator):
        backend.put([message(1)])
        for _ in range(3):
            (held,) = take_all(backend, 1)
            emulator.lose_locks(QUEUE)
        assert lease(backend) == []
        (letter,) = backend.dead_letters.page()
        assert (letter.id, letter.reason) == (held.id, "crash_loop")
        assert "the service counted" in letter.failures[-1].message
        assert backend.dead_letters.replay([held.id]) == [held.id]
        assert [(each.id, each.vanished) for each in take_all(backend, 1)] == [(held.id, 0)]


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "text", "warning"),
        [
            (
                Limits(10, 30.0, True),
                "after 10 deliveries, locks it for 30 s, duplicate detection is on",
                False,
            ),
            (Limits(10, 30.0, False), "a retry may run twice when its worker dies while it sends the copy", False),
            (Limits(1, 30.0, True), "a job dies with its first worker instead of after 3 crashes", True),
            (None, "cannot be read, which needs the right Manage", False),
        ],
    )
    def test_what_the_namespace_says_of_a_queue_is_told(self, limits, text, warning):
        fact = limits_fact("mail", limits)
        assert (fact.about, text in fact.text, fact.warning) == ("queue mail", True, warning)

    def test_limits_are_read_from_whoever_may_be_asked(self):
        found = SimpleNamespace(
            max_delivery_count=7, lock_duration=timedelta(minutes=1), requires_duplicate_detection=True
        )
        assert read_limits(lambda: nullcontext(SimpleNamespace(get_queue=lambda _: found)), "mail") == Limits(
            7, 60.0, True
        )

        def refused():
            raise ServiceRequestError("no such host")

        assert read_limits(refused, "mail") is None
        assert read_limits(None, "mail") is None

    def test_a_message_above_the_limit_is_refused_with_the_others_of_its_batch(self, backend, message, emulator):
        with pytest.raises(InvalidPayload, match="store the data elsewhere"):
            backend.put([message(1), message(2, body=b"x" * 262_000)])
        assert stored(emulator) == 0

    def test_large_puts_are_sent_in_as_many_batches_as_they_need(self, backend, message, emulator):
        numbers = range(1, 9)
        assert backend.put([message(number, body=b"x" * 100_000) for number in numbers]) == [
            message(number).id for number in numbers
        ]
        assert stored(emulator) == 8

    def test_throttling_is_waited_out(self, backend, message, emulator):
        emulator.faults.plan("send", "busy")
        assert backend.put([message(1)]) == [message(1).id]

    def test_a_put_that_fails_names_what_was_stored(self, backend, message, monkeypatch):
        backend.put([message(0)])
        sends = [message(number, body=b"x" * 200_000) for number in (1, 2)]
        send, sent = Entity.send, []

        def second_fails(entity, batch):
            sent.append(batch)
            if len(sent) == 2:
                raise BackendUnavailable("gone")
            send(entity, batch)

        monkeypatch.setattr(Entity, "send", second_fails)
        with pytest.raises(PartialPut, match="gone") as error:
            backend.put(sends)
        assert error.value.accepted == [message(1).id]

    def test_a_queue_that_does_not_exist_is_named(self, backend, message):
        with pytest.raises(BackendError, match="no queue 'nowhere'; create it"):
            backend.put([message(1, queue="nowhere")])

    def test_a_wrong_key_is_told_as_such(self, emulator, message):
        wrong = emulator.connection_string.replace("SharedAccessKey=c", "SharedAccessKey=d")
        backend = open_backend(f"servicebus:{wrong}", SystemClock())
        with pytest.raises(BackendUnavailable, match="refused our credentials"):
            backend.put([message(1)])
        backend.close()


class TestLevels:
    def test_with_levels_higher_priorities_come_first(self, opened, message, emulator, monkeypatch):
        monkeypatch.setattr(receiver, "_RECEIVE_TIMEOUT", 5.0)  # each queue has messages, and may be slow
        backend = opened("?levels=2,8")
        backend.put([message(1, priority=2), message(2, priority=9), message(3, priority=8), message(4, priority=0)])
        assert (stored(emulator, "mail.p8"), stored(emulator, "mail.p2")) == (2, 2)
        assert ids(lease(backend, 10)) == [message(number).id for number in (2, 3, 1, 4)]


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "complaint"),
        [
            ("servicebus:nothing", "the connection string of the portal"),
            ("servicebus://namespace?wrong=1", "unknown option 'wrong'"),
            ("servicebus://namespace?levels=high", "must be priorities, such as 8,5,2"),
            ("servicebus://namespace?prefix=a b", "has characters that queues cannot have"),
        ],
    )
    def test_urls_that_make_no_sense_are_refused(self, url, complaint):
        with pytest.raises(UnknownBackend, match=complaint):
            open_backend(url, SystemClock())

    def test_a_url_without_a_key_needs_azure_identity(self):
        with pytest.raises(BackendUnavailable, match="pip install azure-identity"):
            open_backend("servicebus://shop.servicebus.windows.net", SystemClock())

    def test_a_key_may_be_in_the_url(self):
        open_backend("servicebus://root:c2Vj%2BcmV0@shop.servicebus.windows.net", SystemClock()).close()

    def test_a_shown_connection_string_has_no_key(self, emulator):
        shown = without_secrets(f"servicebus:{emulator.connection_string}?queues=mail")
        assert shown == f"servicebus:Endpoint=sb://127.0.0.1:{emulator.port}"

    def test_what_it_can_tell(self, backend):
        assert backend.server is not None
        assert (backend.queues, backend.jobs) == (None, None)
        assert {fact.about for fact in backend.server.facts()} == {"durability", "leases", "order", "not kept"}


@pytest.fixture
def app(emulator, tmp_path):
    url, store = f"servicebus:{emulator.connection_string}?queues=mail", f"sqlite:///{tmp_path}/store.db"
    with Tenure(url, store=store, keys=[new_key().dump()], lease=12.0, backoff={"strategy": "none"}) as app:
        yield app


class TestWorkers:
    def test_jobs_run_fail_retry_and_die(self, app, run_within):
        ran = []

        @app.job(queue=QUEUE, max_retries=1)
        def greet(name: str):
            ran.append(name)
            if name == "nobody":
                raise ValueError("no name")

        greet.enqueue(name="Ada")
        lost = greet.enqueue(name="nobody")
        assert run_within(app.worker(QUEUE, max=3)) == {"acked": 1, "requeued": 1, "dead-lettered": 1}
        assert sorted(ran) == ["Ada", "nobody", "nobody"]
        (letter,) = app.backend.dead_letters.page()
        assert (letter.id, letter.handler, letter.attempts) == (lost, "greet", 2)
        assert [failure.message for failure in letter.failures] == ["no name", "no name"]

    def test_a_message_of_another_program_becomes_a_dead_letter_with_its_bytes(self, app, emulator, run_within):
        from azure.servicebus import ServiceBusClient, ServiceBusMessage

        with (
            ServiceBusClient.from_connection_string(emulator.connection_string) as client,
            client.get_queue_sender(QUEUE) as sender,
        ):
            sender.send_messages(ServiceBusMessage(b"not of our making"))
        assert run_within(app.worker(QUEUE, max=1, burst=True)) == {"rejected": 1}
        (letter,) = app.backend.dead_letters.page()
        assert (letter.reason, letter.body) == ("malformed", b"not of our making")

    def test_a_long_job_is_kept_and_leaves_what_arrives_to_others(self, app, opened, message, emulator, eventually):
        started, finish = threading.Event(), threading.Event()

        @app.job(queue=QUEUE)
        def hold():
            started.set()
            finish.wait(WAIT_SECONDS)

        hold.enqueue()
        worker = app.worker(QUEUE)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            assert started.wait(WAIT_SECONDS)
            (held,) = emulator.queues[QUEUE].messages.values()
            first_end = held.locked_until
            opened().put([message(7)])
            (taken,) = lease(opened(), wait=WAIT_SECONDS)
            assert (taken.id, taken.vanished) == (message(7).id, 0)
            eventually(lambda: held.locked_until > first_end)
        finally:
            finish.set()
            eventually(lambda: worker.tally["acked"] == 1)
            worker.stop()
            thread.join(WAIT_SECONDS)
