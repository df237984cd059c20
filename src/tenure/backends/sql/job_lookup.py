"""JobLookup and SqlRecentJobs: jobs of any state, by a tag, the start of their id, or their order of enqueue.

Nothing here is on the hot path.

The keys are read first, and then the tables by key: PostgreSQL may not use nested loops, and would join whole tables.
"""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.records import JobRecord, read_key
from tenure.backends.sql.dialect import Dialect, Row
from tenure.backends.sql.job_rows import job_record, may_have_failures, read_failures, with_jobs

TAGGED = """
SELECT enqueued, key FROM tenure_tag
WHERE tag = (:tag) AND enqueued <= :first AND (enqueued < :first OR key < :second)
ORDER BY tag DESC, enqueued DESC, key DESC LIMIT :limit
"""
WITH_PREFIX = "SELECT id, key FROM tenure_job WHERE id >= :first AND id < :last ORDER BY id LIMIT :limit"
# The rows are read downwards along the primary key: no other index has the queue or the handler.
RECENT = "SELECT key FROM tenure_job WHERE key < :before AND key >= :lowest{wanted} ORDER BY key DESC LIMIT :limit"
OF_QUEUES = " AND queue IN :queues"
OF_HANDLER = " AND handler = :handler"
LOWEST = "SELECT key FROM tenure_job WHERE key < :before ORDER BY key DESC LIMIT 1 OFFSET :others"
_FIRST_ROWS = 200  # of a search with a filter; most pages are full by then
_ROWS_GROWTH = 4
# The columns that `with_jobs` takes. PostgreSQL takes the type of each from the first SELECT.
_LIVE = (
    "SELECT key, queue, '{state}', attempts, crashes, fence, NULL, {owner}, NULL, NULL, NULL, NULL, {due}, 0, 0 FROM"
)
INDEXED_BY_KEY = f"""
SELECT key, queue, state, attempts, crashes, fence, finished, owner, seconds, reason, output, run, 0, 0, 0
FROM tenure_outcome WHERE key IN :keys
UNION ALL
SELECT key, queue, 'dead', attempts, crashes, fence, died, nullif(owner, ''), NULL, reason, NULL, NULL, 0, 0, 0
FROM tenure_dead WHERE key IN :keys
UNION ALL {_LIVE.format(state="delayed", owner="NULL", due="due")} tenure_delayed WHERE key IN :keys
UNION ALL {_LIVE.format(state="parked", owner="NULL", due="0")} tenure_parked WHERE key IN :keys
UNION ALL {_LIVE.format(state="leased", owner="owner", due="0")} tenure_lease WHERE key IN :keys
"""
PLACES = "SELECT key, queue, rank FROM tenure_job WHERE key IN :keys"
# The index of ready jobs begins with queue and rank, so each job needs a lookup of its own.
_READY_JOBS = 20  # of one statement
READY = "\nUNION ALL ".join(
    f"""{_LIVE.format(state="ready", owner="NULL", due="0")} tenure_ready
    WHERE queue = :queue{place} AND rank = :rank{place} AND key = :key{place}"""
    for place in range(_READY_JOBS)
)
MEMBERS = """
SELECT key, queue, 'leased', 0, 0, 1, NULL, owner, NULL, NULL, NULL, NULL, 0, 0, 0
FROM tenure_member WHERE batch <= :last AND last >= :first AND key IN :keys
"""
_ROUNDS = 3  # a job that moves from one table to another meanwhile is found in the next round
_NO_PLACE = (0, "", 0)
_FIRST_PLACE = (1 << 62, 0)
_LAST_CHARACTER = chr(sys.maxunicode)
_decode_cursor = msgspec.json.Decoder(tuple[int, int]).decode


class JobLookup:
    """The cursor of a page is the place of the last job that it shows."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def tagged(self, tag: str, limit: int, cursor: str | None) -> tuple[list[JobRecord], str | None]:
        first, second = _decode_cursor(cursor) if cursor else _FIRST_PLACE
        found = self._dialect.read(TAGGED, {"tag": tag, "first": first, "second": second, "limit": limit})
        after = msgspec.json.encode(found[-1]).decode() if len(found) == limit else None
        return self.records([key for _, key in found]), after

    def with_prefix(self, prefix: str, limit: int) -> list[JobRecord]:
        given = {"first": prefix, "last": end_of_prefix(prefix), "limit": limit}
        found = self._dialect.read(WITH_PREFIX, given)
        if found and found[0][0] == prefix:
            found = found[:1]
        return self.records([key for _, key in found])

    def records(self, keys: Sequence[int]) -> list[JobRecord]:
        """The records of these jobs, in this order; jobs that are deleted meanwhile are left out."""
        places = self._places(keys)
        rows = with_jobs(self._dialect, [places[key] for key in keys if key in places])
        failures = read_failures(self._dialect, [row[0] for row in rows if may_have_failures(row)])
        return [job_record(row, failures.get(row[0], ())) for row in rows]

    def _places(self, keys: Sequence[int]) -> dict[int, Row]:
        """The rows that say where these jobs are, by key."""
        found: dict[int, Row] = {}
        for _ in range(_ROUNDS):
            for read in (self._indexed_by_key, self._ready, self._members):
                if left := [key for key in keys if key not in found]:
                    found |= {row[0]: row for row in read(left)}
        return found

    def _indexed_by_key(self, keys: list[int]) -> list[Row]:
        return self._dialect.read(INDEXED_BY_KEY, {"keys": keys})

    def _ready(self, keys: list[int]) -> list[Row]:
        jobs = self._dialect.read(PLACES, {"keys": keys})
        found: list[Row] = []
        for start in range(0, len(jobs), _READY_JOBS):
            chunk = jobs[start : start + _READY_JOBS]
            given: dict[str, Any] = {}
            for place, (key, queue, rank) in enumerate([*chunk, *[_NO_PLACE] * (_READY_JOBS - len(chunk))]):
                given |= {f"key{place}": key, f"queue{place}": queue, f"rank{place}": rank}
            found += self._dialect.read(READY, given)
        return found

    def _members(self, keys: list[int]) -> list[Row]:
        return self._dialect.read(MEMBERS, {"keys": keys, "first": min(keys), "last": max(keys)})


class SqlRecentJobs:
    """Walks down the keys, which are in the order of enqueue; the cursor of a page is the last key that it has read."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lookup = JobLookup(dialect)

    def page(
        self,
        *,
        limit: int,
        cursor: str | None = None,
        queues: Sequence[str] = (),
        handler: str | None = None,
        max_read: int = 10_000,
    ) -> tuple[list[JobRecord], str | None]:
        wanted: dict[str, Any] = {"queues": list(queues)} if queues else {}
        if handler is not None:
            wanted["handler"] = handler
        find = self._select if wanted else self._newest
        keys, after = find(read_key(cursor), limit, max_read, wanted)
        return self._lookup.records(keys), None if after is None else str(after)

    def _newest(self, before: int, limit: int, max_read: int, _: dict[str, Any]) -> tuple[list[int], int | None]:
        shown = min(limit, max_read)
        keys = self._keys("", {"before": before, "lowest": 0, "limit": shown})
        return keys, keys[-1] if len(keys) == shown else None

    def _select(self, before: int, limit: int, max_read: int, wanted: dict[str, Any]) -> tuple[list[int], int | None]:
        """The keys of the wanted jobs, and the last key that was read; None when no job is left.

        Each step first asks where it ends: the database then compares only these rows, and stops at a full page.
        """
        condition = (OF_QUEUES if "queues" in wanted else "") + (OF_HANDLER if "handler" in wanted else "")
        found: list[int] = []
        left, rows = max_read, _FIRST_ROWS
        while left > 0:
            rows = min(rows, left)
            end = self._dialect.read(LOWEST, {"before": before, "others": rows - 1})
            lowest = end[0][0] if end else 0
            given = {**wanted, "before": before, "lowest": lowest, "limit": limit - len(found)}
            found += self._keys(condition, given)
            if len(found) == limit:
                return found, found[-1]
            if not end:
                return found, None
            before, left, rows = lowest, left - rows, rows * _ROWS_GROWTH
        return found, before

    def _keys(self, condition: str, given: dict[str, Any]) -> list[int]:
        return [key for (key,) in self._dialect.read(RECENT.format(wanted=condition), given)]


def end_of_prefix(prefix: str) -> str:
    """The first text, in the order of code points, after all texts that start with this one."""
    kept = prefix.rstrip(_LAST_CHARACTER)
    if not kept:
        return _LAST_CHARACTER * 256  # no id is as long
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)  # UTF-8 has no surrogates
