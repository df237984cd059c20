"""RedisSettlements: ends, returns, abandons, parks and renews held leases, and returns the leases that were lost."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from tenure.backends.messages import Abandon, Ack, Lease, Nack, Park
from tenure.backends.redis import codec
from tenure.backends.redis.connections import Argument, Unconfirmed, with_retries
from tenure.backends.redis.guards import RedisGuards, back_off_after, plan_changes
from tenure.backends.redis.scripts import Call, KeyNames, Scripts
from tenure.clock import MICROSECOND
from tenure.errors import BackendError
from tenure.guards.store import Change

V = TypeVar("V", Ack, Nack, Abandon, Park)
_SAME_SETTLEMENT = 2  # the code of a lease that is not held because exactly this verdict was applied


class Batch(NamedTuple, Generic[V]):
    """The verdicts of one script call: their positions in the call of the verb, and their members of the leases."""

    positions: Sequence[int]
    members: Sequence[str]
    verdicts: Sequence[V]


class RedisSettlements:
    """Repeats a settlement without an answer, and recognises by its effect that it was applied before."""

    def __init__(self, scripts: Scripts, names: KeyNames, unconfirmed: Unconfirmed, guards: RedisGuards | None) -> None:
        self._scripts = scripts
        self._names = names
        self._unconfirmed = unconfirmed
        self._guards = guards

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        kinds = [(verdict.lease.queue, verdict.change is None, verdict.state) for verdict in verdicts]
        return self._settle("ack", verdicts, kinds, _ack_arguments)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle("nack", verdicts, _kinds(verdicts), _nack_arguments)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settle("abandon", verdicts, _kinds(verdicts), _abandon_arguments)

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settle("park", verdicts, [verdict.lease.queue for verdict in verdicts], _park_arguments)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        groups: dict[str, list[int]] = {}
        for position, lease in enumerate(leases):
            groups.setdefault(lease.queue, []).append(position)
        microseconds = round(seconds * MICROSECOND)
        calls: list[Call] = [
            (
                "renew",
                self._names.queue(queue),
                [microseconds, *(codec.lease_member(leases[each]) for each in positions)],
            )
            for queue, positions in groups.items()
        ]
        replies = with_retries(lambda: self._scripts.run_each(calls))
        lost = [
            positions[index - 1]
            for positions, missing in zip(groups.values(), replies, strict=True)
            for index in missing
        ]
        return [leases[position] for position in sorted(lost)]

    def _settle(
        self,
        name: str,
        verdicts: Sequence[V],
        kinds: Sequence[Hashable],
        arguments: Callable[[Batch[V]], list[Argument]],
    ) -> list[Lease]:
        """Settle the verdicts of each kind with one script call."""
        leases = [verdict.lease for verdict in verdicts]
        batches, lost = _batches(verdicts, kinds, codec.lease_members(leases))
        repeats: list[None] = []
        try:
            replies = with_retries(lambda: self._run(name, batches, arguments), lambda: repeats.append(None))
        except BackendError:
            self._unconfirmed.add_settlements(leases)
            raise
        unconfirmed = self._unconfirmed.clear(leases)
        for batch, missing in zip(batches, replies, strict=True):
            for index, code in zip(missing[::2], missing[1::2], strict=True):
                position = batch.positions[index - 1]
                explained = repeats or (leases[position].id, leases[position].fence) in unconfirmed
                if not (code == _SAME_SETTLEMENT and explained):
                    lost.append(position)
        return [leases[position] for position in sorted(lost)]

    def _run(
        self, name: str, batches: Sequence[Batch[V]], arguments: Callable[[Batch[V]], list[Argument]]
    ) -> list[list[int]]:
        """The answer to each batch; batches that change guards run one by one, since a conflict repeats them."""
        plain = [batch for batch in batches if not _change(batch.verdicts[0])]
        calls: list[Call] = [(name, self._key(batch), arguments(batch)) for batch in plain]
        answers = iter(self._scripts.run_each(calls))
        return [
            self._run_guarded(name, batch, arguments(batch)) if _change(batch.verdicts[0]) else next(answers)
            for batch in batches
        ]

    def _key(self, batch: Batch[V]) -> str:
        return self._names.queue(batch.verdicts[0].lease.queue)

    def _run_guarded(self, name: str, batch: Batch[V], arguments: list[Argument]) -> list[int]:
        """Settle, change guards and wake their waiters in one step; a lost lease changes nothing."""
        if self._guards is None:
            raise BackendError(
                "a Redis Cluster cannot change guards together with a job; give the app a store of its own"
            )
        pairs = zip(batch.members, batch.verdicts, strict=True)
        held = [(member, change) for member, verdict in pairs if (change := _change(verdict))]
        for tries in itertools.count():
            changes = [change for _, change in held]
            rows = self._guards.rows(key for change in changes for key in change.keys)
            _, plan = plan_changes(changes, rows)
            plan["members"] = [member for member, _ in held]
            outcome, *answer = self._scripts.run_guarded(name, self._key(batch), plan, arguments)
            if outcome == b"settled":
                return list(answer[0])
            held = [pair for index, pair in enumerate(held, 1) if index not in answer]
            back_off_after(tries)
        raise AssertionError  # itertools.count has no end


class RedisParking:
    """Lets jobs wait for guards; leases are settled as by the other verbs."""

    def __init__(self, settlements: RedisSettlements, guards: RedisGuards) -> None:
        self.park = settlements.park
        self.wake = guards.wake
        self.waiters = guards.waiters


def _change(verdict: Ack | Nack | Abandon | Park) -> Change | None:
    """The guard change of a verdict; in one batch every verdict has one, or none has."""
    return None if isinstance(verdict, Park) else verdict.change


def _kinds(verdicts: Sequence[Nack] | Sequence[Abandon]) -> list[Hashable]:
    return [(verdict.lease.queue, verdict.change is None) for verdict in verdicts]


def _batches(
    verdicts: Sequence[V], kinds: Sequence[Hashable], members: Sequence[str]
) -> tuple[list[Batch[V]], list[int]]:
    """The verdicts of each kind, and the positions of verdicts on a repeated lease; most often all make one batch."""
    if len(set(kinds)) == 1 and len(set(members)) == len(members):
        return [Batch(range(len(members)), members, verdicts)], []
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    seen: set[str] = set()
    again: list[int] = []
    for position, (kind, member) in enumerate(zip(kinds, members, strict=True)):
        if member in seen:
            again.append(position)
        else:
            seen.add(member)
            groups[kind].append(position)
    batches = [
        Batch(each, [members[position] for position in each], [verdicts[position] for position in each])
        for each in groups.values()
    ]
    return batches, again


def _ack_arguments(batch: Batch[Ack]) -> list[Argument]:
    """Everything in one argument: one by one, 1500 arguments took the client 0.7 µs a job and the server as much."""
    ids = [verdict.lease.id for verdict in batch.verdicts]
    return [batch.verdicts[0].state, codec.pack((batch.members, ids, codec.ended_tails(batch.verdicts)))]


def _nack_arguments(batch: Batch[Nack]) -> list[Argument]:
    arguments: list[Argument] = []
    for member, verdict in zip(batch.members, batch.verdicts, strict=True):
        delay = max(0, round(verdict.delay * MICROSECOND))
        place: str = verdict.lease.token[0]
        arguments += [
            member,
            verdict.lease.id,
            place,
            delay,
            codec.encode_counters(verdict),
            codec.encode_failure(verdict),
        ]
    return arguments


def _park_arguments(batch: Batch[Park]) -> list[Argument]:
    arguments: list[Argument] = []
    for member, verdict in zip(batch.members, batch.verdicts, strict=True):
        arguments += [member, verdict.lease.id, *codec.park_arguments(verdict)]
    return arguments


def _abandon_arguments(batch: Batch[Abandon]) -> list[Argument]:
    arguments: list[Argument] = []
    for member, verdict in zip(batch.members, batch.verdicts, strict=True):
        arguments += [member, verdict.lease.id, codec.dead_outcome(verdict), codec.encode_failure(verdict)]
    return arguments
