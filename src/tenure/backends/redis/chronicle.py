"""RedisChronicle: records of jobs that live on a broker: a hash of them, and a sorted set for each state and queue.

All its keys share one hash tag, so that each verb is one step.
"""

from collections.abc import Sequence

from tenure.backends.asking import JobRecord
from tenure.backends.chronicle import merged, moment, read, write
from tenure.backends.redis.connections import Line, Word
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Scripts

_CHUNK = 500


class RedisChronicle:
    """A record is written if what it replaces is still what was read, and is merged again if it is not."""

    def __init__(self, line: Line, scripts: Scripts, names: Names) -> None:
        self._line = line
        self._scripts = scripts
        self._key = names.records

    def note(self, records: Sequence[JobRecord]) -> None:
        for first in range(0, len(records), _CHUNK):
            left = list(records[first : first + _CHUNK])
            while left:
                changed = self._try(left)
                left = [record for record in left if record.id in changed]

    def find(self, id: str) -> JobRecord | None:
        found = patiently(lambda: self._line.ask("HGET", f"{self._key}:jobs", id))
        return None if found is None else read(found)

    def queues_with(self, state: str) -> list[str]:
        places = patiently(lambda: self._line.ask("SMEMBERS", f"{self._key}:places"))
        named = [place.decode().partition(":") for place in places]
        return sorted(queue for each, _, queue in named if each == state)

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        time, _, id = (cursor or str(before or "")).partition(":")
        words: list[Word] = [f"{state}:{queue}", limit, time, id]
        found = patiently(lambda: self._scripts.run("page_records", self._key, words))
        page = [read(record) for record in found]
        return page, f"{moment(page[-1])}:{page[-1].id}" if len(page) == limit else None

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        gone = 0
        for name in self.queues_with(state) if queue is None else [queue]:
            if gone < limit:
                gone += int(self._scripts.run("trim_records", self._key, [f"{state}:{name}", before, limit - gone]))
        return gone

    def _try(self, records: Sequence[JobRecord]) -> set[str]:
        """Note these; returns the ids of those that somebody else has noted meanwhile."""
        ids = list(dict.fromkeys(record.id for record in records))
        found = patiently(lambda: self._line.ask("HMGET", f"{self._key}:jobs", *ids))
        before = {id: record for id, record in zip(ids, found, strict=True) if record is not None}
        known = {id: read(record) for id, record in before.items()}
        words: list[Word] = []
        for id, record in merged(known, records).items():
            words += [id, before.get(id, b""), _place(known.get(id)), write(record), _place(record), moment(record)]
        changed = self._scripts.run("note_records", self._key, words) if words else []
        return {id.decode() for id in changed}


def _place(record: JobRecord | None) -> str:
    return "" if record is None else f"{record.state}:{record.queue}"
