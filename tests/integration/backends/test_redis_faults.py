"""Faults of Redis: no job is lost, nothing runs that was not put, and no call waits for ever."""

import itertools
import os
import threading
import time
from contextlib import closing

import pytest
import redis

from tenure.backends.messages import Abandon, Ack, Nack, Park
from tenure.backends.records import AuditRecord
from tenure.backends.redis.connections import open_server
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.errors import BackendError, BackendUnavailable
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import Ending, settle_guards, take_guards
from tenure.guards.states import Holder
from tenure.testing.conformance.messages import LEASE, QUEUE, id_of, make, make_many, numbers, take
from tests.support.fault_proxy import FaultProxy
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture
def proxy(redis_url):
    with FaultProxy(redis_url) as proxy:
        yield proxy


@pytest.fixture
def backend(proxy):
    """Its timeout is longer than a busy machine needs for an answer."""
    backend = open_backend(f"{proxy.url}&timeout=5", SystemClock())
    yield backend
    backend.close()


@pytest.fixture
def impatient(proxy):
    backend = open_backend(f"{proxy.url}&timeout=1", SystemClock())
    yield backend
    backend.close()


@pytest.fixture
def own(own_server):
    """A durable server that nobody else uses, and a backend on it."""
    server = own_server("redis", durable=True)
    backend = open_backend(f"{server.url}?timeout=20", SystemClock())
    yield server, backend
    backend.close()


def waiting_and_leased(backend):
    counts = backend.queues.counts().get(QUEUE, {"ready": 0, "leased": 0})
    return counts["ready"], counts["leased"]


# Every byte of short replies and a sample of the long ones; requests are cut in their head, body and end.
POINTS = [*range(12), *range(20, 700, 61)]


@pytest.mark.parametrize("limit", ["cut_after", "cut_requests_after"])
def test_a_put_that_is_cut_anywhere_is_stored_once(proxy, backend, limit):
    backend.put([make(0)])
    for number, point in enumerate(POINTS, 1):
        setattr(proxy, limit, point)
        messages = [make(10 * number + each) for each in range(3)]
        assert backend.put(messages) == [message.id for message in messages]
        proxy.heal()
    assert waiting_and_leased(backend) == (1 + 3 * len(POINTS), 0)


@pytest.mark.parametrize("limit", ["cut_after", "cut_requests_after"])
def test_a_claim_that_is_cut_anywhere_grants_what_it_took(proxy, backend, limit):
    backend.put(make_many(range(3 * len(POINTS))))
    seen = []
    for point in POINTS:
        setattr(proxy, limit, point)
        leases = backend.lease([QUEUE], limit=3, seconds=60)
        proxy.heal()
        seen += leases
        assert waiting_and_leased(backend)[1] == len(leases)
        assert [lease.fence for lease in leases] == [1] * 3
        assert backend.ack([Ack(lease=lease) for lease in leases]) == []
    assert sorted(numbers(seen)) == list(range(3 * len(POINTS)))


@pytest.mark.parametrize("limit", ["cut_after", "cut_requests_after"])
@pytest.mark.parametrize("verb", ["ack", "nack", "abandon"])
def test_a_settlement_that_is_cut_anywhere_is_applied_once_and_not_called_lost(proxy, backend, verb, limit):
    verdict = {
        "ack": lambda lease: Ack(lease=lease, output="ok"),
        "nack": lambda lease: Nack(lease=lease, charge="attempt", delay=600),
        "abandon": lambda lease: Abandon(lease=lease, reason="failed"),
    }[verb]
    backend.put(make_many(range(2 * len(POINTS))))
    for point in POINTS:
        leases = backend.lease([QUEUE], limit=2, seconds=60)
        setattr(proxy, limit, point)
        assert getattr(backend, verb)([verdict(lease) for lease in leases]) == []
        proxy.heal()
    state = {"ack": "done", "nack": "delayed", "abandon": "dead"}[verb]
    assert backend.queues.counts()[QUEUE][state] == 2 * len(POINTS)
    attempts = {backend.jobs.find(id_of(number)).attempts for number in range(2 * len(POINTS))}
    assert attempts == ({1} if verb == "nack" else {0})


@pytest.mark.parametrize("limit", ["cut_after", "cut_requests_after"])
def test_a_settlement_that_is_cut_anywhere_frees_its_lock_and_wakes_one_waiter(proxy, backend, limit):
    lock = ConcurrencyLimit("lock:report")
    backend.put(make_many(range(1 + len(POINTS))))
    (holder,) = backend.lease([QUEUE], limit=1, seconds=60)
    for point in POINTS:
        assert backend.guards.change([take_guards([lock], Holder(holder.id, holder.fence, 600))]) == [None]
        leases = backend.lease([QUEUE], limit=100, seconds=60)
        backend.parking.park([Park(lease=lease, key=lock.key, reason="busy") for lease in leases])
        change = settle_guards([lock], Holder(holder.id, holder.fence, 600), Ending(over=True, succeeded=True))
        setattr(proxy, limit, point)
        assert backend.ack([Ack(lease=holder, change=change)]) == []
        proxy.heal()
        (holder,) = backend.lease([QUEUE], limit=100, seconds=60)
    assert backend.queues.counts()[QUEUE]["done"] == len(POINTS)
    assert backend.queues.counts()[QUEUE]["parked"] == 0


def test_a_renewal_that_is_cut_is_repeated(proxy, backend):
    backend.put([make(1)])
    leases = backend.lease([QUEUE], limit=1, seconds=60)
    for point in range(8):
        proxy.cut_after = point
        assert backend.renew(leases, seconds=60) == []
        proxy.heal()


def test_a_claim_whose_answer_was_lost_is_regained_by_the_next_call_with_a_fresh_lease(proxy, backend):
    backend.put(make_many(range(3)))
    proxy.swallow_replies = True
    with pytest.raises(BackendUnavailable):
        backend.lease([QUEUE], limit=2, seconds=60)
    proxy.heal()
    leases = backend.lease([QUEUE], limit=2, seconds=600)
    assert (numbers(leases), [lease.fence for lease in leases]) == ([0, 1], [1, 1])
    left = backend.jobs.find(id_of(0)).lease_until - SystemClock().now()
    assert left > 500_000_000
    assert backend.ack([Ack(lease=lease) for lease in leases]) == []


def test_an_ack_whose_answer_was_lost_is_not_lost_when_it_is_repeated(proxy, backend):
    backend.put([make(1)])
    (lease,) = take(backend)
    proxy.swallow_replies = True
    with pytest.raises(BackendUnavailable):
        backend.ack([Ack(lease=lease)])
    proxy.heal()
    assert backend.ack([Ack(lease=lease)]) == []
    assert backend.ack([Ack(lease=lease)]) == [lease]


@pytest.mark.timing
@pytest.mark.parametrize("direction", ["swallow_requests", "swallow_replies"])
def test_a_half_open_connection_is_given_up_in_time(proxy, impatient, direction):
    impatient.put([make(1)])
    setattr(proxy, direction, True)
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        impatient.put([make(2)])
    assert time.monotonic() - begun < 10
    proxy.heal()
    impatient.put([make(2)])
    assert waiting_and_leased(impatient) == (2, 0)


def test_a_waiting_lease_survives_its_connection(proxy, backend):
    leases = []
    waiting = threading.Thread(
        target=lambda: leases.extend(backend.lease([QUEUE], limit=1, seconds=60, wait=WAIT_SECONDS))
    )
    waiting.start()
    time.sleep(0.2)  # so that it truly waits
    proxy.reset()
    backend.put([make(1)])
    waiting.join(WAIT_SECONDS)
    assert numbers(leases) == [1]


@pytest.mark.timing
def test_a_server_that_is_away_is_said_to_be_away_within_seconds(proxy, impatient):
    proxy.refuse = True
    proxy.reset()
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable, match="the Redis server at 127"):
        impatient.put([make(1)])
    assert 1 < time.monotonic() - begun < 10


def test_everything_works_over_a_slow_line(proxy, backend):
    proxy.latency = 0.05
    backend.put(make_many(range(20)))
    leases = take(backend, 20)
    assert backend.ack([Ack(lease=lease) for lease in leases[:10]]) == []
    assert backend.nack([Nack(lease=lease) for lease in leases[10:]]) == []
    assert waiting_and_leased(backend) == (10, 0)


def test_scripts_that_the_server_forgot_are_given_to_it_again(own):
    server, backend = own
    with redis.Redis.from_url(server.url) as client:
        for number in range(3):
            client.script_flush()
            backend.put([make(number), make(100 + number, queue="other")])
            client.script_flush()
            leases = take(backend, 2, QUEUE, "other")
            client.script_flush()
            assert backend.ack([Ack(lease=lease) for lease in leases]) == []
    assert {queue: counts["done"] for queue, counts in backend.queues.counts().items()} == {QUEUE: 3, "other": 3}


def test_a_flushed_server_is_reported_and_used_again(own):
    server, backend = own
    backend.put(make_many(range(3)))
    (lease,) = take(backend)
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    assert backend.ack([Ack(lease=lease)]) == [lease]
    assert backend.renew([lease], seconds=LEASE) == [lease]
    assert (take(backend), backend.queues.counts(), backend.jobs.find(id_of(1))) == ([], {}, None)
    backend.put([make(1)])
    assert backend.jobs.find(id_of(1)).state == "ready"
    assert numbers(take(backend)) == [1]


def test_a_full_server_refuses_jobs_and_can_still_be_drained(own):
    server, backend = own
    backend.put([*make_many(range(6)), make(9, delay=0.2)])
    leases = take(backend, 2)
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(BackendError, match="out of memory"):
            backend.put([make(7)])
        time.sleep(0.25)  # until the delayed one is due
        leases += take(backend, 6)
        assert backend.renew(leases, seconds=60) == []
        one, two, *rest = leases
        assert backend.nack([Nack(lease=one, delay=600)]) == []
        assert backend.abandon([Abandon(lease=two, reason="failed")]) == []
        assert backend.ack([Ack(lease=lease) for lease in rest]) == []
        assert len(rest) == 5
        client.config_set("maxmemory", 0)
    backend.put([make(7)])


def test_a_full_server_keeps_what_users_did(own):
    server, backend = own
    record = AuditRecord(id="a", at=1, actor="ada", action="dead.discard", target="all")
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
        backend.audit.save(record)
        assert backend.audit.page(limit=9) == [record]
        assert backend.audit.trim(2, 9) == 1


REFUSED_CALLS = {
    "claim": lambda backend, _: backend.lease([QUEUE], limit=1, seconds=60, wait=5),
    "wait after a claim": lambda _, client: client.wait(["queue:wakes"], 1.0),
    "put to a new queue": lambda backend, _: backend.put([make(9, queue="new")]),
    "pause a schedule": lambda backend, _: backend.ledger.pause("nightly"),
}


@pytest.mark.parametrize("call", REFUSED_CALLS.values(), ids=REFUSED_CALLS)
def test_a_server_that_cannot_write_refuses_in_plain_words_and_is_used_again(own, eventually, call):
    server, backend = own
    backend.put([make(0)])
    take(backend)
    with redis.Redis.from_url(server.url) as client, closing(open_server(server.url, timeout=20.0)) as ours:
        (server.folder / "data" / "dump.rdb").mkdir()  # no snapshot can take this name
        client.config_set("save", "3600 1000000")
        client.bgsave()
        eventually(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        with pytest.raises(BackendError, match="cannot write to its disk"):
            call(backend, ours)
        client.config_set("save", "")
    backend.put([make(1)])
    assert numbers(backend.lease([QUEUE], limit=1, seconds=60, wait=5)) == [1]


def test_a_paused_server_delays_and_loses_nothing(own):
    server, backend = own
    backend.put(make_many(range(4)))
    leases = take(backend, 2)
    server.pause()
    threading.Timer(0.5, server.resume).start()
    assert backend.ack([Ack(lease=lease) for lease in leases]) == []
    assert backend.queues.counts()[QUEUE]["done"] == 2


def test_a_forked_child_speaks_on_connections_of_its_own(own):
    _, backend = own
    backend.put(make_many(range(50)))
    child = os.fork()
    if not child:
        ran = [lease for _ in range(50) for lease in take(backend)]
        backend.ack([Ack(lease=lease) for lease in ran])
        os._exit(0)
    ran = [lease for _ in range(50) for lease in take(backend)]
    assert backend.ack([Ack(lease=lease) for lease in ran]) == []
    assert os.waitpid(child, 0)[1] == 0
    assert backend.queues.counts()[QUEUE]["done"] == 50


class Load:
    """A producer and two workers that never give up; what each side was told."""

    def __init__(self, backend):
        self.backend = backend
        self.accepted, self.acked = [], []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=role) for role in (self._produce, self._work, self._work)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)

    def drain(self):
        while any(self.backend.queues.counts()[QUEUE][state] for state in ("ready", "leased")):
            self._turn()

    def _produce(self):
        for number in itertools.count():
            if self._stop.is_set():
                return
            messages = make_many(range(number * 5, number * 5 + 5))
            until_answered(lambda messages=messages: self.backend.put(messages))
            self.accepted += [message.id for message in messages]

    def _work(self):
        while not self._stop.is_set():
            self._turn()

    def _turn(self):
        leases = until_answered(lambda: self.backend.lease([QUEUE], limit=7, seconds=LEASE, wait=0.2))
        lost = until_answered(lambda: self.backend.ack([Ack(lease=lease) for lease in leases]))
        self.acked += [lease.id for lease in leases if lease not in lost]
        until_answered(lambda: self.backend.reap([QUEUE]))


def until_answered(act):
    while True:
        try:
            return act()
        except BackendUnavailable:
            time.sleep(0.05)


def assert_all_ran_once(load, backend):
    assert sorted(load.acked) == sorted(load.accepted)
    assert backend.queues.counts()[QUEUE]["done"] == len(load.accepted)


@pytest.mark.slow
def test_nothing_is_lost_when_the_server_is_killed_under_load(own, eventually):
    server, backend = own
    with Load(backend) as load:
        for _ in range(3):
            time.sleep(1)
            server.kill()
            time.sleep(0.3)
            server.start()
        time.sleep(1)
        eventually(lambda: len(load.accepted) > 100)
    load.drain()
    assert_all_ran_once(load, backend)


@pytest.mark.slow
def test_nothing_is_lost_when_connections_break_under_load(proxy, backend, eventually):
    with Load(backend) as load:
        for number in range(40):
            time.sleep(0.05)
            proxy.cut_after = 37 * number
            if number % 4 == 0:
                proxy.reset()
        proxy.heal()
        eventually(lambda: len(load.accepted) > 100)
    load.drain()
    assert_all_ran_once(load, backend)
