"""The settler settles outcomes in batches, and reports what it lost."""

import logging
import threading
from functools import partial

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Abandon, Ack, Message, Nack
from tenure.definition.failure import Failure
from tenure.errors import BackendUnavailable, Unstorable
from tenure.events import LeaseLost, Listeners, Run, Settled, Status
from tenure.guards.store import MemoryStore
from tenure.testing import FakeClock
from tenure.worker.guard_holder import GuardHolder
from tenure.worker.inbox import HeldLeases
from tenure.worker.pipeline import UNSTARTED
from tenure.worker.settler import LONG_JOB_BATCH_SIZE, Settler
from tests.support.call_counter import calls_of


class Unreachable(MemoryBackend):
    """Fails the first ack."""

    def __init__(self):
        super().__init__()
        self.tried = 0

    def ack(self, verdicts):
        self.tried += 1
        if self.tried == 1:
            raise BackendUnavailable("gone for a moment")
        return super().ack(verdicts)


@pytest.fixture
def events():
    return []


def leased(backend, count=1):
    backend.put([Message(id=str(n), queue="q", body=b"x", handler="h") for n in range(count)])
    return backend.lease(["q"], limit=count, seconds=15)


def settle(backend, verdicts, events):
    listeners = Listeners()
    listeners.add(events.append)
    settler = Settler(backend, HeldLeases(), listeners, GuardHolder(MemoryStore(FakeClock())), "host:1")
    for verdict in verdicts:
        settler.settle(verdict)
    settler.stop()
    settler.run()
    return settler


def test_jobs_that_go_back_unstarted_are_not_counted(events):
    backend = MemoryBackend()
    unstarted, postponed = leased(backend, 2)

    settler = settle(backend, [Nack(lease=unstarted, reason=UNSTARTED), Nack(lease=postponed, delay=5.0)], events)

    assert settler.tally == {Status.POSTPONED: 1}


def test_every_kind_of_verdict_reaches_its_verb(events):
    backend = MemoryBackend()
    done, again, dead = leased(backend, 3)

    verdicts = [Ack(lease=done), Nack(lease=again, delay=9.0, charge="attempt"), Abandon(lease=dead, reason="failed")]
    settler = settle(backend, verdicts, events)

    assert [backend.jobs.find(str(n)).state for n in range(3)] == ["done", "delayed", "dead"]
    assert settler.tally == {Status.ACKED: 1, Status.REQUEUED: 1, Status.DEAD_LETTERED: 1}


@pytest.mark.parametrize("verdict", [partial(Nack, charge="attempt"), partial(Abandon, reason="retries_exhausted")])
def test_a_failure_is_kept_with_the_name_of_its_worker(events, verdict):
    backend = MemoryBackend()
    (lease,) = leased(backend)

    settle(backend, [verdict(lease=lease, failure=Failure("ValueError", "no", 7, 1))], events)

    assert backend.jobs.find("0").failures == (Failure("ValueError", "no", 7, 1, worker="host:1"),)


@pytest.mark.parametrize(("seconds", "waits"), [(0.0001, True), (0.005, False)])
def test_of_jobs_that_took_long_few_are_kept_waiting(seconds, waits):
    backend = MemoryBackend()
    settler = Settler(backend, HeldLeases(), Listeners(), GuardHolder(MemoryStore(FakeClock())))

    for lease in leased(backend, LONG_JOB_BATCH_SIZE):
        assert not settler._flush_now.is_set()
        settler.settle(Ack(lease=lease, run=Run("h", 0, seconds)))

    assert settler._flush_now.is_set() is not waits


def test_one_flush_is_one_event(events):
    backend = MemoryBackend()

    settle(backend, [Ack(lease=lease) for lease in leased(backend, 5)], events)

    assert [type(event) for event in events] == [Settled]
    assert len(events[0].settlements) == 5


def test_a_settlement_is_tried_again_when_the_backend_was_away(events):
    backend = Unreachable()

    settle(backend, [Ack(lease=lease) for lease in leased(backend)], events)

    assert backend.jobs.find("0").state == "done"


def test_a_lost_lease_is_told_and_not_counted(events, caplog):
    backend = MemoryBackend()
    (lease,) = leased(backend)
    backend.ack([Ack(lease=lease)])

    with caplog.at_level(logging.WARNING):
        settler = settle(backend, [Ack(lease=lease)], events)

    assert events == [LeaseLost(("0",), "settle")]
    assert settler.tally.total() == 0


def test_a_death_is_logged_once_as_critical_with_its_reason(events, caplog):
    backend = MemoryBackend()
    (lease,) = leased(backend)

    with caplog.at_level(logging.CRITICAL):
        settle(backend, [Abandon(lease=lease, reason="bad_signature")], events)

    assert [(record.levelname, record.reason) for record in caplog.records] == [("CRITICAL", "bad_signature")]


def test_verdicts_given_by_many_threads_are_all_settled(events):
    backend = MemoryBackend()
    settler = Settler(backend, HeldLeases(), Listeners(), GuardHolder(MemoryStore(FakeClock())))
    running = threading.Thread(target=settler.run)
    running.start()
    leases = leased(backend, 2000)
    threads = [
        threading.Thread(target=lambda part=leases[n::4]: [settler.settle(Ack(lease=lease)) for lease in part])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settler.stop()
    running.join()

    assert backend.queues.counts()["q"]["done"] == 2000


class Particular(MemoryBackend):
    """Cannot store what concerns some jobs: `refused` names them, `verbs` what it refuses."""

    def __init__(self, error, refused, verbs):
        super().__init__()
        self._error, self._refused_ids, self._verbs = error, refused, verbs

    def ack(self, verdicts):
        self._check("ack", verdicts)
        return super().ack(verdicts)

    def nack(self, verdicts):
        self._check("nack", verdicts)
        return super().nack(verdicts)

    def abandon(self, verdicts):
        self._check("abandon", [verdict for verdict in verdicts if verdict.failure])
        return super().abandon(verdicts)

    def put(self, messages):
        if "put" in self._verbs and any(message.handler == "follower" for message in messages):
            raise self._error
        return super().put(messages)

    def _check(self, verb, verdicts):
        if verb in self._verbs and any(verdict.lease.id in self._refused_ids for verdict in verdicts):
            raise self._error


FINAL = [Unstorable("out of range"), ValueError("garbage"), OverflowError("too large")]
FAILURE = Failure("ValueError", "no", 7, 1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("error", FINAL, ids=repr)
@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_a_verdict_that_cannot_be_stored_is_the_end_of_its_job_alone(events, error, verb):
    backend = Particular(error, {"7", "30"}, {verb})
    leases = leased(backend, 40)
    verdicts = [Ack(lease=lease) if verb == "ack" else Nack(lease=lease, charge="attempt") for lease in leases]

    settler = settle(backend, verdicts, events)

    states = [backend.jobs.find(str(n)).state for n in range(40)]
    other = "done" if verb == "ack" else "ready"
    assert states == ["dead" if n in (7, 30) else other for n in range(40)]
    assert {each.reason for each in backend.dead_letters.page()} == {"unprocessable"}
    assert settler.tally[Status.DEAD_LETTERED] == 2
    assert settler.tally.total() == 40


@pytest.mark.timeout(20)
@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_a_death_with_details_that_cannot_be_stored_is_stored_without_them(events, error):
    backend = Particular(error, {"1"}, {"abandon"})
    verdicts = [Abandon(lease=lease, reason="timeout", failure=FAILURE) for lease in leased(backend, 3)]

    settle(backend, verdicts, events)

    dead = {each.id: each for each in backend.dead_letters.page()}
    assert {id: (each.reason, len(each.failures)) for id, each in dead.items()} == {
        "0": ("timeout", 1),
        "1": ("timeout", 0),
        "2": ("timeout", 1),
    }


@pytest.mark.timeout(20)
@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_a_job_whose_followers_cannot_be_stored_is_dead_and_the_others_are_done(events, error):
    backend = Particular(error, set(), {"put"})
    follow = (Message(id="f", queue="q", body=b"x", handler="follower"),)
    first, second, third = leased(backend, 3)

    settle(backend, [Ack(lease=first), Ack(lease=second, follow=follow), Ack(lease=third)], events)

    assert [backend.jobs.find(str(n)).state for n in range(3)] == ["done", "dead", "done"]


def test_the_verdict_on_a_job_that_cannot_be_settled_tells_the_cause(events):
    backend = Particular(Unstorable("out of range"), {"0"}, {"ack"})
    (lease,) = leased(backend)

    def bury(lease, error):
        return Abandon(lease=lease, reason="unprocessable", failure=Failure(type(error).__name__, str(error), 7, 1))

    listeners = Listeners()
    listeners.add(events.append)
    settler = Settler(backend, HeldLeases(), listeners, GuardHolder(MemoryStore(FakeClock())), "host:1", bury=bury)
    settler.settle(Ack(lease=lease))
    settler.stop()
    settler.run()

    assert backend.jobs.find("0").failures == (Failure("Unstorable", "out of range", 7, 1, worker="host:1"),)
    assert [each.status for event in events for each in event.settlements] == [Status.DEAD_LETTERED]


class Accepting(MemoryBackend):
    """Accepts every ack at once, so that only the calls of the settler count."""

    def ack(self, verdicts):
        return []


def test_a_batch_of_successes_is_settled_in_one_pass_without_a_call_for_each_job():
    backend = Accepting()
    leases = leased(backend, 200)
    settler = Settler(backend, HeldLeases(), Listeners(), GuardHolder(MemoryStore(FakeClock())))

    few, _ = calls_of(lambda: settler._flush([Ack(lease=lease) for lease in leases[:20]]))
    many, _ = calls_of(lambda: settler._flush([Ack(lease=lease) for lease in leases]))

    assert many == few
    assert settler.tally == {Status.ACKED: 220}
