"""RedisRecords: what people look at and act on: counts, single jobs, dead letters, old history.

A job is looked for in every queue, since nothing but its queue knows it; nothing here is on the hot path.
"""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from tenure.backends.asking import HEAD, STATES, Burial, JobRecord
from tenure.backends.redis import notation
from tenure.backends.redis.connections import Line, Word
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Call, Scripts
from tenure.clock import MICROSECOND

_SCAN = 1000


class RedisRecords:
    """One script a queue, all queues at once."""

    def __init__(self, line: Line, scripts: Scripts, names: Names) -> None:
        self._line = line
        self._scripts = scripts
        self._names = names

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        found = {queue: dict(zip(STATES, counts, strict=True)) for queue, counts in self._everywhere("counts")}
        if not ended:
            found = {queue: {**counts, "done": 0, "cancelled": 0, "expired": 0} for queue, counts in found.items()}
        return {queue: counts for queue, counts in found.items() if any(counts.values())}

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        ages = self._everywhere("oldest", queues=queues)
        return {queue: int(age) / MICROSECOND for queue, age in ages if age is not None}

    def find(self, id: str) -> JobRecord | None:
        for queue, found in self._everywhere("find", id):
            if found:
                return self.found(id, queue, found)
        return None

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        """Goes through the queues by name; the cursor is the server's own and the queue it is for."""
        queues = self.queues()
        position, _, queue = (cursor or f"0:{queues[0] if queues else ''}").partition(":")
        if queue not in queues:
            return [], None
        words = (position, limit, HEAD)
        ((_, (after, found)),) = self._everywhere("heads", *words, queues=[queue])
        if after != b"0":
            return found, f"{after.decode()}:{queue}"
        rest = queues[queues.index(queue) + 1 :]
        return found, f"0:{rest[0]}" if rest else None

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        words: tuple[Word, ...] = (limit, *(after or ("", "")))
        pages = self._everywhere("dead", *words, queues=None if queue is None else [queue])
        letters = [
            notation.read_dead(id.decode(), name, died, record, outcome, notation.read_failures(failures))
            for name, page in pages
            for id, died, record, outcome, failures in page
        ]
        return sorted(letters, key=attrgetter("finished_at", "id"))[:limit]

    def replay(self, ids: Sequence[str]) -> list[str]:
        return self._of_dead("replay", ids)

    def discard(self, ids: Sequence[str]) -> list[str]:
        return self._of_dead("discard", ids)

    def bury(self, burials: Sequence[Burial]) -> list[str]:
        """A queue at a time; not repeated when there is no answer, as the second would say that nothing was new."""
        stored: set[str] = set()
        queues = list(dict.fromkeys(burial.message.queue for burial in burials))
        if queues:
            patiently(lambda: self._line.ask("SADD", self._names.queues, *queues))
        for queue in queues:
            own = [burial for burial in burials if burial.message.queue == queue]
            words = [word for burial in own for word in notation.letter(burial)]
            stored |= {id.decode() for id in self._scripts.run("bury", self._names.queue(queue), words)}
        return [id for id in dict.fromkeys(burial.message.id for burial in burials) if id in stored]

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        gone = 0
        for name in self.queues() if queue is None else [queue]:
            if gone < limit:
                gone += self._scripts.run("trim", self._names.queue(name), [state, before, limit - gone])
        return gone

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        """The jobs that wait or run with these."""
        ids = patiently(lambda: self._line.ask("HMGET", self._names.uniques, *uniques)) if uniques else []
        return {unique: id.decode() for unique, id in zip(uniques, ids, strict=True) if id}

    def _of_dead(self, name: str, ids: Sequence[str]) -> list[str]:
        """Not repeated when there is no answer: the second would say that nothing was dead."""
        found = self._scripts.run_each(self._calls(name, tuple(dict.fromkeys(ids)), self.queues()))
        return [id.decode() for each in found for id in each]

    def _everywhere(self, name: str, *words: Word, queues: Sequence[str] | None = None) -> list[tuple[str, Any]]:
        """What a script that only looks answers on every queue, or on these."""
        named = self.queues() if queues is None else queues
        return list(zip(named, patiently(lambda: self._scripts.run_each(self._calls(name, words, named))), strict=True))

    def _calls(self, name: str, words: Sequence[Word], queues: Sequence[str]) -> list[Call]:
        return [(name, self._names.queue(queue), words) for queue in queues]

    def queues(self) -> list[str]:
        return sorted(name.decode() for name in patiently(lambda: self._line.ask("SMEMBERS", self._names.queues)))

    def found(self, id: str, queue: str, found: list[Any]) -> JobRecord | None:
        state, record, meta, moment, outcome, failures, progress, asked, waits_for = found
        errors = notation.read_failures(failures)
        if state == b"ended":
            return notation.read_ended(id, queue, record, errors)
        if state == b"dead":
            return notation.read_dead(id, queue, moment, record, outcome, errors)
        attempts, crashes, fence, _ = notation.counters(meta)
        more: dict[str, Any] = {"failures": errors}
        if state == b"delayed":
            more["due_at"] = int(moment)
        if state == b"parked":
            more["waits_for"] = waits_for.decode()
        if state == b"leased":
            holder = self._holder(id, queue)
            if holder is None:
                return self.find(id)  # settled while we looked
            more["owner"], fence, more["lease_until"] = holder
            more |= {"progress": notation.read_progress(progress), "cancel_asked": bool(asked)}
        return notation.read_live(id, queue, state.decode(), record, (attempts, crashes, fence), **more)

    def _holder(self, id: str, queue: str) -> tuple[str, int, int] | None:
        """Owner, fence and expiry of a job's lease, looked for among all leases of its queue."""
        pattern = re.sub(r"([*?\[\]\\^])", r"\\\1", id) + ":*"
        cursor = b"0"
        while True:
            cursor, found = self._scripts.run("holder", self._names.queue(queue), [cursor, pattern, _SCAN])
            for member, expires in zip(found[::2], found[1::2], strict=True):
                holds, owner, fence, _ = member.decode().rsplit(":", 3)
                if holds == id:
                    return owner, int(fence), int(expires)
            if cursor == b"0":
                return None
