"""RedisSettlements: ends, returns, abandons, parks and renews held leases, and returns the leases that were lost."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from tenure.backends.messages import Abandon, Ack, Lease, Nack, Park
from tenure.backends.redis import codec
from tenure.backends.redis.connections import Argument, Unconfirmed, with_retries
from tenure.backends.redis.guards import RedisGuards, back_off_after, plan_changes
from tenure.backends.redis.scripts import Call, KeyNames, Scripts
from tenure.clock import MICROSECOND
from tenure.errors import BackendError
from tenure.guards.store import Change

V = TypeVar("V", Ack, Nack, Abandon, Park)
Batch = list[tuple[int, str, V]]  # position in the call, member of the leases, verdict
_SAME_SETTLEMENT = 2  # the code of a lease that is not held because exactly this verdict was applied


class RedisSettlements:
    """Repeats a settlement without an answer, and recognises by its effect that it was applied before."""

    def __init__(self, scripts: Scripts, names: KeyNames, unconfirmed: Unconfirmed, guards: RedisGuards | None) -> None:
        self._scripts = scripts
        self._names = names
        self._unconfirmed = unconfirmed
        self._guards = guards

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settle("ack", verdicts, lambda verdict: (verdict.lease.queue, verdict.state), _ack_arguments)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle("nack", verdicts, lambda verdict: verdict.lease.queue, _nack_arguments)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settle("abandon", verdicts, lambda verdict: verdict.lease.queue, _abandon_arguments)

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settle("park", verdicts, lambda verdict: verdict.lease.queue, _park_arguments)

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
        group_of: Callable[[V], Hashable],
        arguments: Callable[[Batch[V]], list[Argument]],
    ) -> list[Lease]:
        groups, lost = _grouped(verdicts, group_of)
        leases = [verdict.lease for verdict in verdicts]
        repeats: list[None] = []
        try:
            replies = with_retries(lambda: self._run(name, groups, arguments), lambda: repeats.append(None))
        except BackendError:
            self._unconfirmed.add_settlements(leases)
            raise
        unconfirmed = self._unconfirmed.clear(leases)
        for group, missing in zip(groups, replies, strict=True):
            for index, code in zip(missing[::2], missing[1::2], strict=True):
                position, _, verdict = group[index - 1]
                explained = repeats or (verdict.lease.id, verdict.lease.fence) in unconfirmed
                if not (code == _SAME_SETTLEMENT and explained):
                    lost.append(position)
        return [leases[position] for position in sorted(lost)]

    def _run(
        self, name: str, groups: Sequence[Batch[V]], arguments: Callable[[Batch[V]], list[Argument]]
    ) -> list[list[int]]:
        """The answer of each group; groups that change guards run one by one, since a conflict repeats them."""
        plain = [group for group in groups if not _change(group[0][2])]
        calls: list[Call] = [(name, self._names.queue(group[0][2].lease.queue), arguments(group)) for group in plain]
        answers = iter(self._scripts.run_each(calls))
        return [
            self._run_guarded(name, group, arguments(group)) if _change(group[0][2]) else next(answers)
            for group in groups
        ]

    def _run_guarded(self, name: str, group: Batch[V], arguments: list[Argument]) -> list[int]:
        """Settle, change guards and wake their waiters in one step; a lost lease changes nothing."""
        if self._guards is None:
            raise BackendError(
                "a Redis Cluster cannot change guards together with a job; give the app a store of its own"
            )
        queue = self._names.queue(group[0][2].lease.queue)
        held = [(member, change) for _, member, verdict in group if (change := _change(verdict))]
        for tries in itertools.count():
            changes = [change for _, change in held]
            rows = self._guards.rows(key for change in changes for key in change.keys)
            _, plan = plan_changes(changes, rows)
            plan["members"] = [member for member, _ in held]
            outcome, *answer = self._scripts.run_guarded(name, queue, plan, arguments)
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


def _change(verdict: Ack | Nack | Abandon | Park) -> Change | None:
    """The guard change of a verdict; in one group every verdict has one, or none has."""
    return None if isinstance(verdict, Park) else verdict.change


def _grouped(verdicts: Sequence[V], group_of: Callable[[V], Hashable]) -> tuple[list[Batch[V]], list[int]]:
    """The verdicts in batches, one for each script call, and the positions of verdicts on a repeated lease."""
    groups: defaultdict[Hashable, Batch[V]] = defaultdict(list)
    seen: set[str] = set()
    again: list[int] = []
    for position, verdict in enumerate(verdicts):
        member = codec.lease_member(verdict.lease)
        if member in seen:
            again.append(position)
            continue
        seen.add(member)
        groups[group_of(verdict), _change(verdict) is None].append((position, member, verdict))
    return list(groups.values()), again


def _ack_arguments(batch: Batch[Ack]) -> list[Argument]:
    arguments: list[Argument] = [batch[0][2].state, len(batch)]
    arguments += [member for _, member, _ in batch]
    arguments += [verdict.lease.id for _, _, verdict in batch]
    arguments += [codec.ended_tail(verdict) for _, _, verdict in batch]
    return arguments


def _nack_arguments(batch: Batch[Nack]) -> list[Argument]:
    arguments: list[Argument] = []
    for _, member, verdict in batch:
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
    for _, member, verdict in batch:
        arguments += [member, verdict.lease.id, *codec.park_arguments(verdict)]
    return arguments


def _abandon_arguments(batch: Batch[Abandon]) -> list[Argument]:
    arguments: list[Argument] = []
    for _, member, verdict in batch:
        arguments += [member, verdict.lease.id, codec.dead_outcome(verdict), codec.encode_failure(verdict)]
    return arguments
