"""The hypothesis state machine behind `machine_for`; importing this module needs hypothesis."""

from collections import Counter
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tenure.backends.messages import Abandon, Ack, Charge, Lease, Message, Nack, Terminal
from tenure.clock import MICROSECOND, Clock
from tenure.definition.context import Progress
from tenure.events import JOB_STATES
from tenure.testing.clock import FakeClock
from tenure.testing.conformance.messages import FullBackend
from tenure.testing.model import Model

QUEUES = ("one", "two")

queues = st.permutations(QUEUES).flatmap(lambda names: st.sampled_from([names, names[:1]]))
delays = st.sampled_from([0.0, 0.0, 0.5, 5.0])
seconds = st.sampled_from([1.0, 10.0])
charges = st.sampled_from([None, "attempt", "crash", "vanished", "suspect"])
picked = st.lists(st.integers(0, 10**6), min_size=1, max_size=5)


with_control = precondition(lambda machine: machine.backend.control is not None)


class ModelComparison(RuleBasedStateMachine):
    """Each rule calls the backend and the model and compares the answers; each invariant compares their states."""

    open_backend: Callable[[Clock], FullBackend]

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.backend = self.open_backend(self.clock)
        self.model = Model()
        self.leases: list[Lease] = []
        self.fences: dict[str, int] = {}
        self.ids: list[str] = []

    def teardown(self) -> None:
        self.backend.close()

    @rule(queue=st.sampled_from(QUEUES), jobs=st.lists(st.tuples(st.integers(0, 9), delays), min_size=1, max_size=6))
    def put(self, queue: str, jobs: list[tuple[int, float]]) -> None:
        messages = [self._message(queue, priority, delay) for priority, delay in jobs]
        assert self.backend.put(messages) == self.model.put(messages, self.clock.now())

    @rule(picks=picked)
    def put_what_is_known(self, picks: list[int]) -> None:
        known = [id for id in self._pick(self.ids, picks) if id in self.model.jobs]
        messages = [self.model.jobs[id].message for id in known]
        assert self.backend.put(messages) == []

    @rule(queues=queues, limit=st.integers(1, 6), seconds=seconds)
    def lease(self, queues: list[str], limit: int, seconds: float) -> None:
        now = self.clock.now()
        leases = self.backend.lease(queues, limit=limit, seconds=seconds)
        expected = self.model.lease(queues, limit, now + round(seconds * MICROSECOND), now)
        self._granted(leases, expected)

    @rule(queues=queues, seconds=seconds)
    def lease_suspect(self, queues: list[str], seconds: float) -> None:
        leases = self.backend.lease_suspect(queues, seconds=seconds)
        self._granted(leases, self.model.lease_suspect(queues, self.clock.now() + round(seconds * MICROSECOND)))

    @rule(picks=picked, state=st.sampled_from(["done", "cancelled", "expired"]))
    def ack(self, picks: list[int], state: Terminal) -> None:
        verdicts = [Ack(lease=lease, state=state) for lease in self._decided(picks)]
        assert self.backend.ack(verdicts) == self.model.settle(verdicts, self.clock.now())

    @rule(picks=picked, delay=delays, charge=charges, inconclusive=st.booleans())
    def nack(self, picks: list[int], delay: float, charge: Charge | None, inconclusive: bool) -> None:
        verdicts = [
            Nack(lease=lease, delay=delay, charge=charge, inconclusive=inconclusive and charge is None)
            for lease in self._decided(picks)
        ]
        assert self.backend.nack(verdicts) == self.model.settle(verdicts, self.clock.now())

    @rule(picks=picked, charge=charges)
    def abandon(self, picks: list[int], charge: Charge | None) -> None:
        verdicts = [Abandon(lease=lease, reason="failed", charge=charge) for lease in self._decided(picks)]
        assert self.backend.abandon(verdicts) == self.model.settle(verdicts, self.clock.now())

    @rule(picks=picked, seconds=seconds)
    def renew(self, picks: list[int], seconds: float) -> None:
        leases = self._decided(picks)
        expires = self.clock.now() + round(seconds * MICROSECOND)
        assert self.backend.renew(leases, seconds=seconds) == self.model.renew(leases, expires)

    @rule(queues=queues, suspect_after=st.integers(1, 3))
    def reap(self, queues: list[str], suspect_after: int) -> None:
        reaped = self.backend.reap(queues, suspect_after=suspect_after)
        expected = self.model.reap(queues, suspect_after, self.clock.now())
        assert {(each.id, each.crashed) for each in reaped} == expected
        assert len({each.id for each in reaped}) == len(reaped)

    @rule(picks=picked)
    def replay(self, picks: list[int]) -> None:
        ids = self._pick(self.ids, picks)
        assert set(self.backend.dead_letters.replay(ids)) == self.model.replay(ids, self.clock.now())

    @rule(picks=picked)
    def discard(self, picks: list[int]) -> None:
        ids = self._pick(self.ids, picks)
        assert set(self.backend.dead_letters.discard(ids)) == self.model.discard(ids)

    @with_control
    @rule(picks=picked)
    def cancel(self, picks: list[int]) -> None:
        ids = list(dict.fromkeys(self._pick(self.ids, picks)))
        assert self.backend.control.cancel(ids) == self.model.cancel(ids)

    @precondition(lambda machine: machine.backend.control is not None)
    @rule(picks=picked, delay=delays)
    def reschedule(self, picks: list[int], delay: float) -> None:
        ids = list(dict.fromkeys(self._pick(self.ids, picks)))
        due = self.clock.now() + round(delay * MICROSECOND)
        assert self.backend.control.reschedule(ids, delay=delay) == self.model.reschedule(ids, due, self.clock.now())

    @with_control
    @rule(picks=picked, done=st.integers(0, 9))
    def note_progress(self, picks: list[int], done: int) -> None:
        items = [(lease, Progress(float(done), 9.0)) for lease in self._decided(picks)]
        self.backend.control.save_progress(items)
        self.model.note_progress(items)

    @with_control
    @invariant()
    def every_holder_sees_its_cancel_request(self) -> None:
        assert self.backend.control.cancel_requested(self.leases) == self.model.asked_to_stop(self.leases)

    @rule(seconds=st.sampled_from([0.001, 0.6, 3.0, 30.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def suspects_are_found(self) -> None:
        assert [self.backend.has_suspects([queue]) for queue in QUEUES] == [
            self.model.has_suspects([queue]) for queue in QUEUES
        ]

    @invariant()
    def counts_match(self) -> None:
        found = {queue: _waiting_joined(states) for queue, states in self.backend.queues.counts().items()}
        assert {queue: +states for queue, states in found.items() if +states} == self.model.counts()

    @invariant()
    def every_id_is_in_exactly_the_state_it_should_be(self) -> None:
        for id in self.ids:
            record, job = self.backend.jobs.find(id), self.model.jobs.get(id)
            if record is None or job is None:
                assert (record, job) == (None, None)
            else:
                assert _joined(record.state) == job.state
                assert (record.attempts, record.crashes, record.fence) == (job.attempts, job.crashes, job.fence)
                assert (record.cancel_asked, record.progress) == (job.asked, job.progress)

    def _granted(self, leases: list[Lease], expected: list[str]) -> None:
        assert [lease.id for lease in leases] == expected
        for lease in leases:
            job = self.model.jobs[lease.id]
            assert (lease.fence, lease.attempts, lease.crashes) == (job.fence, job.attempts, job.crashes)
            assert (lease.vanished, lease.body) == (job.vanished, job.message.body)
            assert lease.fence > self.fences.get(lease.id, 0)
            self.fences[lease.id] = lease.fence
        self.leases += leases

    def _message(self, queue: str, priority: int, delay: float) -> Message:
        id = f"job-{len(self.ids):06d}"
        self.ids.append(id)
        return Message(id=id, queue=queue, body=id.encode(), handler="greet", priority=priority, delay=delay)

    def _decided(self, picks: list[int]) -> list[Lease]:
        """Some of the leases ever granted, held and lost ones, but none whose state is undecided."""
        now = self.clock.now()
        return [lease for lease in self._pick(self.leases, picks) if not self.model.is_undecided(lease, now)]

    @staticmethod
    def _pick(values: list, picks: list[int]) -> list:  # type: ignore[type-arg]
        return [values[pick % len(values)] for pick in picks] if values else []


def _joined(state: str) -> str:
    """A delayed message may be shown as delayed until a worker asks for work."""
    return "waiting" if state in ("ready", "delayed", "parked") else state


def _waiting_joined(states: dict[str, int]) -> Counter[str]:
    assert set(states) == set(JOB_STATES)
    joined: Counter[str] = Counter()
    for state, count in states.items():
        joined[_joined(state)] += count
    return joined
