"""JobLookup: jobs of any state, found by a tag or by the start of their id; nothing here is on the hot path.

The keys are read first, and then the tables by key: PostgreSQL may not use nested loops, and would join whole tables.
"""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.records import JobRecord
from tenure.backends.sql.dialect import Dialect, Row
from tenure.backends.sql.job_rows import job_record, may_have_failures, read_failures, with_jobs

TAGGED = """
SELECT enqueued, key FROM tenure_tag
WHERE tag = (:tag) AND enqueued <= :first AND (enqueued < :first OR key < :second)
ORDER BY tag DESC, enqueued DESC, key DESC LIMIT :limit
"""
WITH_PREFIX = "SELECT id, key FROM tenure_job WHERE id >= :first AND id < :last ORDER BY id LIMIT :limit"
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
        return self._records([key for _, key in found]), after

    def with_prefix(self, prefix: str, limit: int) -> list[JobRecord]:
        given = {"first": prefix, "last": end_of_prefix(prefix), "limit": limit}
        found = self._dialect.read(WITH_PREFIX, given)
        if found and found[0][0] == prefix:
            found = found[:1]
        return self._records([key for _, key in found])

    def _records(self, keys: Sequence[int]) -> list[JobRecord]:
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


def end_of_prefix(prefix: str) -> str:
    """The first text, in the order of code points, after all texts that start with this one."""
    kept = prefix.rstrip(_LAST_CHARACTER)
    if not kept:
        return _LAST_CHARACTER * 256  # no id is as long
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)  # UTF-8 has no surrogates
