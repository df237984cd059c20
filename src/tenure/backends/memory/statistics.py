"""MemoryStatistics: what workers counted, in a dictionary."""

import threading
from collections.abc import Sequence

from tenure.metrics.tally import Tally, folded

_Key = tuple[int, str, str, str]


class MemoryStatistics:
    """By slot, queue, handler and worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[_Key, Tally] = {}

    def note_tallies(self, tallies: Sequence[Tally]) -> None:
        with self._lock:
            self._tallies.update((_key(tally), tally) for tally in tallies)

    def tallies(self, since: int, until: int) -> list[Tally]:
        with self._lock:
            return [self._tallies[key] for key in sorted(self._tallies) if since <= key[0] < until]

    def fold_tallies(self, before: int, limit: int) -> int:
        with self._lock:
            loose = [tally for tally in self._tallies.values() if tally.worker and tally.slot < before][:limit]
            for tally in loose:
                del self._tallies[_key(tally)]
            for whole in folded(loose):
                known = self._tallies.get(_key(whole))
                (self._tallies[_key(whole)],) = folded([whole, known] if known else [whole])
            return len(loose)

    def drop_tallies(self, before: int, limit: int) -> int:
        with self._lock:
            old = [key for key in sorted(self._tallies) if key[0] < before][:limit]
            for key in old:
                del self._tallies[key]
            return len(old)


def _key(tally: Tally) -> _Key:
    return tally.slot, tally.queue, tally.handler, tally.worker
