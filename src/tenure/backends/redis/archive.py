"""RedisArchive: records of jobs that live on a broker: a hash of them, and sorted sets by state and queue, and by tag.

All its keys share one hash tag, so that each verb is one step.
"""

from collections.abc import Sequence

from tenure.backends.parts import forget_results
from tenure.backends.records import (
    ARCHIVED_ENDS,
    JobRecord,
    by_prefix,
    decode_record,
    encode,
    merge_records,
    read_place,
    sort_time,
)
from tenure.backends.redis.connections import Argument, RedisClient, with_retries
from tenure.backends.redis.scripts import KeyNames, Scripts, scan_ids

_CHUNK = 500


class RedisArchive:
    """A record is written if the stored one has not changed since it was read; otherwise both are merged again."""

    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames) -> None:
        self._client = client
        self._scripts = scripts
        self._key = names.records

    def save(self, records: Sequence[JobRecord]) -> None:
        for first in range(0, len(records), _CHUNK):
            left = list(records[first : first + _CHUNK])
            while left:
                changed = self._save(left)
                left = [record for record in left if record.id in changed]

    def find(self, id: str) -> JobRecord | None:
        found = with_retries(lambda: self._client.ask("HGET", f"{self._key}:jobs", id))
        return None if found is None else decode_record(found)

    def queues_with(self, state: str) -> list[str]:
        places = with_retries(lambda: self._client.ask("SMEMBERS", f"{self._key}:places"))
        named = [place.decode().partition(":") for place in places]
        return sorted(queue for each, _, queue in named if each == state)

    def page(
        self,
        state: str,
        queue: str,
        *,
        limit: int,
        cursor: str | None = None,
        before: int | None = None,
        bodies: bool = False,  # noqa: ARG002 - an archive has none
    ) -> tuple[list[JobRecord], str | None]:
        time, _, id = (cursor or str(before or "")).partition(":")
        arguments: list[Argument] = [f"{state}:{queue}", limit, time, id]
        found = with_retries(lambda: self._scripts.run("page_records", self._key, arguments))
        page = [decode_record(record) for record in found]
        return page, f"{sort_time(page[-1])}:{page[-1].id}" if len(page) == limit else None

    def tagged(self, tag: str, *, limit: int, cursor: str | None = None) -> tuple[list[JobRecord], str | None]:
        after: tuple[Argument, ...] = read_place(cursor) if cursor else ("", "")
        found = with_retries(lambda: self._scripts.run("tagged", self._key, [tag, limit, *after]))
        ids, places = found[::2], found[1::2]
        cursor = encode((int(float(places[-1])), ids[-1].decode())).decode() if len(ids) == limit else None
        records = with_retries(lambda: self._client.ask("HMGET", f"{self._key}:jobs", *ids)) if ids else []
        return [decode_record(record) for record in records if record is not None], cursor

    def with_prefix(self, prefix: str, limit: int = 10) -> list[JobRecord]:
        """No index has the ids: unless this is a complete id, the server compares those of all records."""
        if exact := self.find(prefix):
            return [exact]
        found = [self.find(id) for id in scan_ids(self._scripts, self._key, prefix, limit)]
        return by_prefix([record for record in found if record is not None], prefix, limit)

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        gone = 0
        for name in self.queues_with(state) if queue is None else [queue]:
            if gone < limit:
                gone += int(self._scripts.run("trim_records", self._key, [f"{state}:{name}", before, limit - gone]))
        return gone

    def forget(self, ids: Sequence[str]) -> list[str]:
        return forget_results(self, ids)

    def delete(self, ids: Sequence[str]) -> list[str]:
        """The server deletes a record only if it is still the one that was read."""
        deleted: list[str] = []
        for id, found in self._stored(list(dict.fromkeys(ids))).items():
            record = decode_record(found)
            if record.state in ARCHIVED_ENDS:
                arguments: list[Argument] = [id, found, _state_and_queue(record)]
                deleted += [id] * self._scripts.run("delete_record", self._key, arguments)
        return deleted

    def _stored(self, ids: Sequence[str]) -> dict[str, bytes]:
        found = with_retries(lambda: self._client.ask("HMGET", f"{self._key}:jobs", *ids)) if ids else []
        return {id: record for id, record in zip(ids, found, strict=True) if record is not None}

    def _save(self, records: Sequence[JobRecord]) -> set[str]:
        """Save these; return the ids of the records that another worker changed meanwhile."""
        ids = list(dict.fromkeys(record.id for record in records))
        before = self._stored(ids)
        known = {id: decode_record(record) for id, record in before.items()}
        arguments: list[Argument] = []
        for id, record in merge_records(known, records).items():
            arguments += [
                id,
                before.get(id, b""),
                _state_and_queue(known.get(id)),
                encode(record),
                _state_and_queue(record),
                sort_time(record),
                ",".join(record.tags),
                record.enqueued_at,
            ]
        changed = self._scripts.run("save_records", self._key, arguments) if arguments else []
        return {id.decode() for id in changed}


def _state_and_queue(record: JobRecord | None) -> str:
    return "" if record is None else f"{record.state}:{record.queue}"
