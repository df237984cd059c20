"""RedisJobs, RedisQueueCounts and RedisDeadLetters: jobs, pages, counts and ages; nothing here is on the hot path.

Only its queue knows a job, so a job is searched in every queue: one script per queue, all queues at once.
The record of a dead letter stays where it was; a sorted set for each queue orders the dead letters.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from msgspec import structs

from tenure.backends.records import JobRecord, NewDeadLetter, by_prefix, read_place
from tenure.backends.redis import codec
from tenure.backends.redis.connections import Argument, with_retries
from tenure.backends.redis.scripts import Call, RedisQueues, Scripts, starting_with
from tenure.clock import MICROSECOND
from tenure.events import END_STATES, JOB_STATES

_SCAN_COUNT = 1000  # leases read at a time


class RedisJobs:
    """The cursor of a page is the number of jobs already shown."""

    def __init__(self, scripts: Scripts, queues: RedisQueues) -> None:
        self._scripts = scripts
        self._queues = queues

    def find(self, id: str) -> JobRecord | None:
        for queue, found in self._queues.run("find", id):
            if found:
                return self._record(id, queue, found)
        return None

    def queues_with(self, state: str) -> list[str]:  # noqa: ARG002 - a queue without such jobs gives an empty page
        return self._queues.all()

    def page(
        self,
        state: str,
        queue: str,
        *,
        limit: int,
        cursor: str | None = None,
        before: int | None = None,
        bodies: bool = False,
    ) -> tuple[list[JobRecord], str | None]:
        key, start = self._queues.key(queue), int(cursor or 0)
        if cursor is None and before is not None and state in END_STATES:
            start = with_retries(lambda: self._scripts.run("newer", key, [state, before]))
        ids = with_retries(lambda: self._scripts.run("page", key, [state, start, limit]))
        calls: list[Call] = [("find", key, [id]) for id in ids]
        found = with_retries(lambda: self._scripts.run_each(calls)) if calls else []
        records = [
            record if bodies else structs.replace(record, body=None)
            for id, each in zip(ids, found, strict=True)
            if each and (record := self._record(id.decode(), queue, each)) and record.state == state
        ]
        return records, str(start + limit) if len(ids) == limit else None

    def tagged(self, tag: str, *, limit: int, cursor: str | None = None) -> tuple[list[JobRecord], str | None]:
        """Every queue has its own index: each is asked for a page, and the newest of all are shown."""
        after: tuple[Argument, ...] = read_place(cursor) if cursor else ("", "")
        places = [
            (int(float(enqueued)), id.decode(), queue)
            for queue, page in self._queues.run("tagged", tag, limit, *after)
            for id, enqueued in zip(page[::2], page[1::2], strict=True)
        ]
        shown = sorted(places, reverse=True)[:limit]
        records = self._found([(id, queue) for _, id, queue in shown])
        return (
            [record for record in records if tag in record.tags],
            codec.json_bytes(shown[-1][:2]).decode() if len(shown) == limit else None,
        )

    def with_prefix(self, prefix: str, limit: int = 10) -> list[JobRecord]:
        """No index has the ids: unless this is a complete id, the server compares those of all jobs, in small steps."""
        if exact := self.find(prefix):
            return [structs.replace(exact, body=None)]
        found: list[tuple[str, str]] = []
        for queue in self._queues.all():
            if len(found) < limit:
                ids = self._queues.scan_ids(queue, prefix, limit - len(found))
                found += [(id, queue) for id in ids]
        return by_prefix(self._found(found), prefix, limit)

    def _found(self, places: Sequence[tuple[str, str]]) -> list[JobRecord]:
        """The records of jobs with these ids and queues, without bodies; those that are gone are left out."""
        calls: list[Call] = [("find", self._queues.key(queue), [id]) for id, queue in places]
        found = with_retries(lambda: self._scripts.run_each(calls)) if calls else []
        return [
            structs.replace(record, body=None)
            for (id, queue), each in zip(places, found, strict=True)
            if each and (record := self._record(id, queue, each))
        ]

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        return trim(self._scripts, self._queues, state, before, limit, queue)

    def forget(self, ids: Sequence[str]) -> list[str]:
        """The server replaces a record only if it is still the one that was read."""
        forgotten: list[str] = []
        for id in dict.fromkeys(ids):
            for queue, found in self._queues.run("find", id):
                if found and found[0] == b"ended":
                    change = (id, found[1], codec.without_output(found[1]))
                    forgotten += [id] * self._scripts.run("replace_record", self._queues.key(queue), change)
        return forgotten

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Not repeated without an answer: a second call would say that nothing had ended."""
        found = self._scripts.run_each(self._queues.calls("delete", tuple(dict.fromkeys(ids)))) if ids else []
        return [id.decode() for each in found for id in each]

    def _record(self, id: str, queue: str, found: list[Any]) -> JobRecord | None:
        state, record, meta, moment, outcome, failures, progress, asked, waits_for = found
        errors = codec.decode_failures(failures)
        if state == b"ended":
            return codec.decode_ended(id, queue, record, errors)
        if state == b"dead":
            return codec.decode_dead(id, queue, moment, record, outcome, errors)
        attempts, crashes, fence, _ = codec.decode_counters(meta)
        more: dict[str, Any] = {"failures": errors}
        if state == b"delayed":
            more["due_at"] = int(moment)
        if state == b"parked":
            more["waits_for"] = waits_for.decode()
        if state == b"leased":
            holder = self._holder(id, queue)
            if holder is None:
                return self.find(id)  # a worker settled it meanwhile
            more["owner"], fence, more["lease_until"] = holder
            more |= {"progress": codec.decode_progress(progress), "cancel_asked": bool(asked)}
        return codec.decode_live(id, queue, state.decode(), record, (attempts, crashes, fence), **more)

    def _holder(self, id: str, queue: str) -> tuple[str, int, int] | None:
        """Owner, fence and expiry of a job's lease, searched among all leases of its queue."""
        pattern = starting_with(f"{id}:")
        cursor = b"0"
        while True:
            cursor, found = self._scripts.run("holder", self._queues.key(queue), [cursor, pattern, _SCAN_COUNT])
            for member, expires in zip(found[::2], found[1::2], strict=True):
                holds, owner, fence, _ = member.decode().rsplit(":", 3)
                if holds == id:
                    return owner, int(fence), int(expires)
            if cursor == b"0":
                return None


class RedisQueueCounts:
    def __init__(self, queues: RedisQueues) -> None:
        self._queues = queues

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for queue, counts in self._queues.run("counts"):
            found[queue] = dict(zip(JOB_STATES, counts, strict=True))
            if not ended:
                found[queue] |= {"done": 0, "cancelled": 0, "expired": 0}
        return {queue: counts for queue, counts in found.items() if any(counts.values())}

    def ended_since(self, state: str, queue: str, since: int, limit: int) -> int:
        ((_, count),) = self._queues.run("newer", state, since, limit, queues=[queue])
        return int(count)

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        ages = self._queues.run("oldest", queues=queues)
        return {queue: int(age) / MICROSECOND for queue, age in ages if age is not None}


def trim(scripts: Scripts, queues: RedisQueues, state: str, before: int, limit: int, queue: str | None) -> int:
    """Delete up to `limit` jobs that ended in this state before this time; return how many."""
    deleted = 0
    for name in queues.all() if queue is None else [queue]:
        if deleted < limit:
            deleted += scripts.run("trim", queues.key(name), [state, before, limit - deleted])
    return deleted


class RedisDeadLetters:
    def __init__(self, scripts: Scripts, queues: RedisQueues) -> None:
        self._scripts = scripts
        self._queues = queues

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        arguments: tuple[Argument, ...] = (limit, *(after or ("", "")))
        pages = self._queues.run("dead", *arguments, queues=None if queue is None else [queue])
        letters = [
            codec.decode_dead(id.decode(), name, died, record, outcome, codec.decode_failures(failures))
            for name, page in pages
            for id, died, record, outcome, failures in page
        ]
        return sorted(letters, key=attrgetter("finished_at", "id"))[:limit]

    def replay(self, ids: Sequence[str]) -> list[str]:
        return self._act("replay", ids)

    def discard(self, ids: Sequence[str]) -> list[str]:
        return self._act("discard", ids)

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:
        """One queue at a time; not repeated without an answer, because a second call would find nothing new."""
        stored: set[str] = set()
        queues = list(dict.fromkeys(letter.message.queue for letter in letters))
        self._queues.register(queues)
        for queue in queues:
            arguments = [
                argument
                for letter in letters
                if letter.message.queue == queue
                for argument in codec.dead_letter_arguments(letter)
            ]
            stored |= {id.decode() for id in self._scripts.run("add_dead", self._queues.key(queue), arguments)}
        return [id for id in dict.fromkeys(letter.message.id for letter in letters) if id in stored]

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        return trim(self._scripts, self._queues, "dead", before, limit, queue)

    def _act(self, script: str, ids: Sequence[str]) -> list[str]:
        """Not repeated without an answer: a second call would say that nothing was dead."""
        found = self._scripts.run_each(self._queues.calls(script, tuple(dict.fromkeys(ids))))
        return [id.decode() for each in found for id in each]
