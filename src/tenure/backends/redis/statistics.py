"""RedisStatistics: what workers counted: a hash of records, and a sorted set of their fields by slot.

A field is the JSON array of slot, queue, handler and worker.
"""

from collections.abc import Sequence

import msgspec

from tenure.backends.redis.connections import Word
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Scripts
from tenure.metrics.tally import Counts, Tally, folded

_field = msgspec.json.Decoder(tuple[int, str, str, str]).decode
_counts = msgspec.json.Decoder(Counts).decode
_encode = msgspec.json.Encoder().encode


class RedisStatistics:
    """A worker writes only its own fields; those that were added up are compared before they are replaced."""

    def __init__(self, scripts: Scripts, names: Names) -> None:
        self._scripts = scripts
        self._key = names.tallies

    def note_tallies(self, tallies: Sequence[Tally]) -> None:
        words = [word for tally in tallies for word in _words(tally)]
        if words:
            patiently(lambda: self._scripts.run("note_tallies", self._key, words))

    def tallies(self, since: int, until: int) -> list[Tally]:
        return self._look(since, until, "every", -1)

    def fold_tallies(self, before: int, limit: int) -> int:
        loose = self._look(0, before, "loose", limit)
        for whole in folded(loose):
            parts = [each for each in loose if (each.slot, each.queue, each.handler) == _place(whole)]
            self._fold(whole, parts)
        return len(loose)

    def drop_tallies(self, before: int, limit: int) -> int:
        return int(self._scripts.run("drop_tallies", self._key, [before, limit]))

    def _fold(self, whole: Tally, parts: Sequence[Tally]) -> None:
        """Replace the parts and the sum as it was by the sum as it is; somebody who was quicker has done it."""
        known = self._scripts.run("look_tally", self._key, [_name(whole)])
        sums = folded([whole, Tally(*_place(whole), "", _counts(known))] if known else [whole])
        words: list[Word] = [known or "", *_words(sums[0])]
        words += [word for part in parts for word in _words(part)]
        self._scripts.run("fold_tally", self._key, words)

    def _look(self, since: int, until: int, which: str, limit: int) -> list[Tally]:
        found = patiently(lambda: self._scripts.run("tallies", self._key, [since, until, which, limit]))
        pairs = zip(found[::2], found[1::2], strict=True)
        return [Tally(*_field(name), _counts(record)) for name, record in pairs]


def _name(tally: Tally) -> bytes:
    return _encode((tally.slot, tally.queue, tally.handler, tally.worker))


def _words(tally: Tally) -> tuple[int, bytes, bytes]:
    return tally.slot, _name(tally), _encode(tally.counts)


def _place(tally: Tally) -> tuple[int, str, str]:
    return tally.slot, tally.queue, tally.handler
