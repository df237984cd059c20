"""RedisWorkers and RedisStats: the workers that are alive, and what they count.

Statistics are a hash of records and a sorted set of their fields by slot; a field is the JSON array of slot, queue,
handler and worker. A worker writes only its own fields; folded ones are compared before they are replaced.
"""

from collections.abc import Sequence

import msgspec

from tenure.backends.records import WorkerRecord
from tenure.backends.redis import codec
from tenure.backends.redis.connections import Argument, with_retries
from tenure.backends.redis.scripts import KeyNames, Scripts
from tenure.clock import MICROSECOND
from tenure.metrics.statistics import Counts, Tally, merge_workers

_decode_worker = msgspec.json.Decoder(WorkerRecord).decode
_field = msgspec.json.Decoder(tuple[int, str, str, str]).decode
_counts = msgspec.json.Decoder(Counts).decode
_encode = msgspec.json.Encoder().encode


class RedisWorkers:
    """Sorted by the time at which each worker is forgotten unless it announces itself again."""

    def __init__(self, scripts: Scripts, names: KeyNames) -> None:
        self._scripts = scripts
        self._key = names.workers

    def announce(self, worker: WorkerRecord, seconds: float) -> None:
        arguments: list[Argument] = [worker.id, round(seconds * MICROSECOND), codec.json_bytes(worker)]
        with_retries(lambda: self._scripts.run("announce_worker", self._key, arguments))

    def remove(self, id: str) -> None:
        with_retries(lambda: self._scripts.run("remove_worker", self._key, [id]))

    def drop_dead(self, limit: int) -> int:
        return int(with_retries(lambda: self._scripts.run("drop_dead_workers", self._key, [limit])))

    def alive(self) -> list[WorkerRecord]:
        records = [_decode_worker(record) for record in self._scripts.run("alive_workers", self._key) if record]
        return sorted(records, key=lambda worker: worker.started_at)


class RedisStats:
    def __init__(self, scripts: Scripts, names: KeyNames) -> None:
        self._scripts = scripts
        self._key = names.tallies

    def save(self, tallies: Sequence[Tally]) -> None:
        arguments = [argument for tally in tallies for argument in _arguments(tally)]
        if arguments:
            with_retries(lambda: self._scripts.run("save_tallies", self._key, arguments))

    def read(self, since: int, until: int) -> list[Tally]:
        return self._select(since, until, "every", -1)

    def fold(self, before: int, limit: int) -> int:
        unfolded = self._select(0, before, "unfolded", limit)
        for whole in merge_workers(unfolded):
            parts = [each for each in unfolded if (each.slot, each.queue, each.handler) == _place(whole)]
            self._fold(whole, parts)
        return len(unfolded)

    def drop(self, before: int, limit: int) -> int:
        return int(self._scripts.run("drop_tallies", self._key, [before, limit]))

    def _fold(self, whole: Tally, parts: Sequence[Tally]) -> None:
        """Replace the parts and the sum as it was by the sum as it is; another process may have done it first."""
        known = self._scripts.run("read_tally", self._key, [_name(whole)])
        sums = merge_workers([whole, Tally(*_place(whole), "", _counts(known))] if known else [whole])
        arguments: list[Argument] = [known or "", *_arguments(sums[0])]
        arguments += [argument for part in parts for argument in _arguments(part)]
        self._scripts.run("fold_tally", self._key, arguments)

    def _select(self, since: int, until: int, which: str, limit: int) -> list[Tally]:
        found = with_retries(lambda: self._scripts.run("tallies", self._key, [since, until, which, limit]))
        pairs = zip(found[::2], found[1::2], strict=True)
        return [Tally(*_field(name), _counts(record)) for name, record in pairs]


def _name(tally: Tally) -> bytes:
    return _encode((tally.slot, tally.queue, tally.handler, tally.worker))


def _arguments(tally: Tally) -> tuple[int, bytes, bytes]:
    return tally.slot, _name(tally), _encode(tally.counts)


def _place(tally: Tally) -> tuple[int, str, str]:
    return tally.slot, tally.queue, tally.handler
