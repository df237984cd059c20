"""Settling: ends, returns, buries and renews what is held, and names the leases that are not."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from tenure.backends.contract import Abandon, Ack, Lease, Nack, Park
from tenure.backends.redis import notation
from tenure.backends.redis.connections import Word
from tenure.backends.redis.doubts import Doubts
from tenure.backends.redis.guarding import RedisGuarding, pause, planned
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Call, Scripts
from tenure.clock import MICROSECOND
from tenure.errors import BackendError
from tenure.guards.store import Change

V = TypeVar("V", Ack, Nack, Abandon, Park)
Batch = list[tuple[int, str, V]]  # position in the call, member of the leases, verdict
_SETTLED_SO_BEFORE = 2  # the code of a lease that is not held, because just this verdict was applied


class Settling:
    """A settlement without an answer is repeated, and then recognised by what it left."""

    def __init__(self, scripts: Scripts, names: Names, doubts: Doubts, guarding: RedisGuarding | None) -> None:
        self._scripts = scripts
        self._names = names
        self._doubts = doubts
        self._guarding = guarding

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settle("ack", verdicts, lambda verdict: (verdict.lease.queue, verdict.state), _acking)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle("nack", verdicts, lambda verdict: verdict.lease.queue, _nacking)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settle("abandon", verdicts, lambda verdict: verdict.lease.queue, _abandoning)

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settle("park", verdicts, lambda verdict: verdict.lease.queue, _parking)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        groups: dict[str, list[int]] = {}
        for position, lease in enumerate(leases):
            groups.setdefault(lease.queue, []).append(position)
        microseconds = round(seconds * MICROSECOND)
        calls: list[Call] = [
            ("renew", self._names.queue(queue), [microseconds, *(notation.member(leases[each]) for each in positions)])
            for queue, positions in groups.items()
        ]
        replies = patiently(lambda: self._scripts.run_each(calls))
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
        words: Callable[[Batch[V]], list[Word]],
    ) -> list[Lease]:
        groups, lost = _grouped(verdicts, group_of)
        leases = [verdict.lease for verdict in verdicts]
        repeats: list[None] = []
        try:
            replies = patiently(lambda: self._run(name, groups, words), lambda: repeats.append(None))
        except BackendError:
            self._doubts.settled(leases)
            raise
        doubtful = self._doubts.clear(leases)
        for group, missing in zip(groups, replies, strict=True):
            for index, code in zip(missing[::2], missing[1::2], strict=True):
                position, _, verdict = group[index - 1]
                explained = repeats or (verdict.lease.id, verdict.lease.fence) in doubtful
                if not (code == _SETTLED_SO_BEFORE and explained):
                    lost.append(position)
        return [leases[position] for position in sorted(lost)]

    def _run(self, name: str, groups: Sequence[Batch[V]], words: Callable[[Batch[V]], list[Word]]) -> list[list[int]]:
        """What each group answers; those that change guards go one by one, since a conflict repeats them."""
        plain = [group for group in groups if not _change(group[0][2])]
        calls: list[Call] = [(name, self._names.queue(group[0][2].lease.queue), words(group)) for group in plain]
        answers = iter(self._scripts.run_each(calls))
        return [
            self._run_guarded(name, group, words(group)) if _change(group[0][2]) else next(answers) for group in groups
        ]

    def _run_guarded(self, name: str, group: Batch[V], words: list[Word]) -> list[int]:
        """Settle, change guards and wake whom they held up, in one step; a lost lease changes nothing."""
        if self._guarding is None:
            raise BackendError("guards cannot be changed together with a job here; give the app a store of its own")
        queue = self._names.queue(group[0][2].lease.queue)
        held = [(member, change) for _, member, verdict in group if (change := _change(verdict))]
        for tries in itertools.count():
            changes = [change for _, change in held]
            rows = self._guarding.rows(key for change in changes for key in change.keys)
            _, plan = planned(changes, rows)
            plan["members"] = [member for member, _ in held]
            outcome, *answer = self._scripts.run_guarded(name, queue, plan, words)
            if outcome == b"settled":
                return list(answer[0])
            held = [pair for index, pair in enumerate(held, 1) if index not in answer]
            pause(tries)
        raise AssertionError  # itertools.count has no end


def _change(verdict: Ack | Nack | Abandon | Park) -> Change | None:
    """The change of guards that comes with a verdict; of one group each has one, or none has."""
    return None if isinstance(verdict, Park) else verdict.change


def _grouped(verdicts: Sequence[V], group_of: Callable[[V], Hashable]) -> tuple[list[Batch[V]], list[int]]:
    """The verdicts in batches of one script each, and the positions of those whose lease was named before."""
    groups: defaultdict[Hashable, Batch[V]] = defaultdict(list)
    seen: set[str] = set()
    again: list[int] = []
    for position, verdict in enumerate(verdicts):
        member = notation.member(verdict.lease)
        if member in seen:
            again.append(position)
            continue
        seen.add(member)
        groups[group_of(verdict), _change(verdict) is None].append((position, member, verdict))
    return list(groups.values()), again


def _acking(batch: Batch[Ack]) -> list[Word]:
    words: list[Word] = [batch[0][2].state, len(batch)]
    words += [member for _, member, _ in batch]
    words += [verdict.lease.id for _, _, verdict in batch]
    words += [notation.ended(verdict) for _, _, verdict in batch]
    return words


def _nacking(batch: Batch[Nack]) -> list[Word]:
    words: list[Word] = []
    for _, member, verdict in batch:
        delay = max(0, round(verdict.delay * MICROSECOND))
        place: str = verdict.lease.token[0]
        words += [member, verdict.lease.id, place, delay, notation.meta(verdict), notation.failure(verdict)]
    return words


def _parking(batch: Batch[Park]) -> list[Word]:
    words: list[Word] = []
    for _, member, verdict in batch:
        words += [member, verdict.lease.id, *notation.parked(verdict)]
    return words


def _abandoning(batch: Batch[Abandon]) -> list[Word]:
    words: list[Word] = []
    for _, member, verdict in batch:
        words += [member, verdict.lease.id, notation.death(verdict), notation.failure(verdict)]
    return words
