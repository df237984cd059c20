"""RedisListing: pages of jobs by state and queue; a cursor is how many were shown."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from tenure.backends.asking import ENDED, JobRecord
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Call, Scripts

Read = Callable[[str, str, list[Any]], JobRecord | None]


class RedisListing:
    """`read` makes a record of what the script `find` answers, `queues` are all there are."""

    def __init__(self, scripts: Scripts, names: Names, queues: Callable[[], list[str]], read: Read) -> None:
        self._scripts = scripts
        self._names = names
        self._queues = queues
        self._read = read

    def queues_with(self, state: str) -> list[str]:  # noqa: ARG002 - a queue that has none is an empty page
        return self._queues()

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        key, start = self._names.queue(queue), int(cursor or 0)
        if cursor is None and before is not None and state in ENDED:
            start = patiently(lambda: self._scripts.run("newer", key, [state, before]))
        ids = patiently(lambda: self._scripts.run("page", key, [state, start, limit]))
        calls: list[Call] = [("find", key, [id]) for id in ids]
        found = patiently(lambda: self._scripts.run_each(calls)) if calls else []
        records = [
            structs.replace(record, body=None)
            for id, each in zip(ids, found, strict=True)
            if each and (record := self._read(id.decode(), queue, each)) and record.state == state
        ]
        return records, str(start + limit) if len(ids) == limit else None
