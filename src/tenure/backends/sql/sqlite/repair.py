"""Repairs rows that cannot be claimed: SQLite stores any value in any column, so another program can damage a row.

Only a claim that could not read its rows comes here. The repaired job is leased with the fault, and the worker makes it
a dead letter; its message stays as it was.
"""

from collections.abc import Mapping
from typing import Any

from tenure.definition.limits import MAX_COUNT, MAX_TEXT

_COUNTERS = ("attempts", "crashes", "fence", "vanished")
_MAX_FENCE = MAX_COUNT - 1  # the lease adds one


def _is_counter(column: str) -> str:
    return f"(typeof({column}) = 'integer' AND {column} BETWEEN 0 AND {_MAX_FENCE})"


_IS_RANK = "(typeof(r.rank) = 'integer' AND r.rank BETWEEN -9 AND 0)"
_FOUND = f"""
SELECT r.key, typeof(j.id), CAST(j.id AS BLOB), typeof(j.due) = 'integer',
       {" AND ".join(_is_counter(f"r.{column}") for column in _COUNTERS)} AND {_IS_RANK}
FROM tenure_ready AS r JOIN tenure_job AS j ON j.key = r.key
WHERE r.queue = :queue ORDER BY r.rank, r.key LIMIT :limit
"""
_REPAIR_READY = f"""
UPDATE tenure_ready AS r SET rank = iif({_IS_RANK}, r.rank, -5),
    {", ".join(f"{column} = iif({_is_counter(f'r.{column}')}, r.{column}, 0)" for column in _COUNTERS)}
WHERE r.queue = :queue AND r.key = :key
"""
_REPAIR_JOB = "UPDATE tenure_job SET id = :id, due = iif(typeof(due) = 'integer', due, :now) WHERE key = :key"


def repair(tx: Any, wanted: Mapping[str, Any]) -> dict[int, str]:
    """Repair the rows that the claim with these parameters would read; returns what was wrong with each, by its key."""
    faults: dict[int, str] = {}
    for key, kind, stored, has_due, has_counters in tx.execute(_FOUND, wanted).fetchall():
        id = _valid_id(kind, stored)
        if id is not None and has_due and has_counters:
            continue
        what = "an id that is no text" if id is None else "counters or a due time that are no numbers"
        faults[key] = f"the row of the job in SQLite has {what}: another program has changed it"
        row = {**wanted, "key": key, "id": id or f"damaged-{key}"}
        tx.execute(_REPAIR_READY, row)
        tx.execute(_REPAIR_JOB, row)
    return faults


def _valid_id(kind: str, stored: bytes) -> str | None:
    try:
        id = stored.decode()
    except UnicodeDecodeError:
        return None
    return id if kind == "text" and len(id) <= MAX_TEXT and "\0" not in id else None
