"""Settling: ends, returns, buries and renews what is held, and names the leases that are not."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from tenure.backends.contract import Abandon, Ack, Lease, Nack
from tenure.backends.redis import notation
from tenure.backends.redis.connections import Word
from tenure.backends.redis.doubts import Doubts
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Call, Scripts
from tenure.clock import MICROSECOND
from tenure.errors import BackendError

V = TypeVar("V", Ack, Nack, Abandon)
Batch = list[tuple[int, str, V]]  # position in the call, member of the leases, verdict
_SETTLED_SO_BEFORE = 2  # the code of a lease that is not held, because just this verdict was applied


class Settling:
    """A settlement without an answer is repeated, and then recognised by what it left."""

    def __init__(self, scripts: Scripts, names: Names, doubts: Doubts) -> None:
        self._scripts = scripts
        self._names = names
        self._doubts = doubts

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settle("ack", verdicts, lambda verdict: (verdict.lease.queue, verdict.state), _acking)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle("nack", verdicts, lambda verdict: verdict.lease.queue, _nacking)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settle("abandon", verdicts, lambda verdict: verdict.lease.queue, _abandoning)

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
        calls: list[Call] = [(name, self._names.queue(group[0][2].lease.queue), words(group)) for group in groups]
        repeats: list[None] = []
        try:
            replies = patiently(lambda: self._scripts.run_each(calls), lambda: repeats.append(None))
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


def _grouped(verdicts: Sequence[V], group_of: Callable[[V], Hashable]) -> tuple[list[Batch[V]], list[int]]:
    """The verdicts in batches of one script each, and the positions of those whose lease was named before."""
    groups: dict[Hashable, Batch[V]] = {}
    seen: set[str] = set()
    again: list[int] = []
    for position, verdict in enumerate(verdicts):
        member = notation.member(verdict.lease)
        if member in seen:
            again.append(position)
            continue
        seen.add(member)
        groups.setdefault(group_of(verdict), []).append((position, member, verdict))
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


def _abandoning(batch: Batch[Abandon]) -> list[Word]:
    words: list[Word] = []
    for _, member, verdict in batch:
        words += [member, verdict.lease.id, notation.death(verdict), notation.failure(verdict)]
    return words
