"""Batches: leases of fresh jobs that one claim grants are one row, and the acks of its members do not change that row.

A fresh job was never leased before: its counters are 0, and its fence becomes 1. A member is leased while it has no
outcome: an ack appends outcomes, and the ack of the last member deletes the row of the batch. Everything else
(renewing, returning, parking, progress, cancelling, reaping) expands the batch into rows of tenure_lease first, and so
knows only those. Acks and expansions lock the row of the batch, so that each of them sees what the other did.
"""

from collections.abc import Iterable, Sequence

from tenure.backends.messages import Lease
from tenure.backends.sql.dialect import Dialect, Row, Rows

# In two statements: the second sees the outcomes of an ack for which the first has waited.
LOCK = "SELECT key FROM tenure_batch WHERE key IN :batches ORDER BY key FOR UPDATE"
EXPAND = """
INSERT INTO tenure_lease (key, queue, rank, attempts, crashes, fence, vanished, owner, expires, asked)
SELECT key, queue, rank, 0, 0, 1, 0, owner, expires, 0 FROM tenure_member WHERE batch IN :batches
"""
DROP = "DELETE FROM tenure_batch WHERE key IN :batches"
EXPAND_BATCH = 20  # batches that a reaper expands at once
MEMBERS = """
SELECT key, batch FROM tenure_member WHERE batch <= :last AND last >= :first AND key IN :keys
"""
LEASED = "SELECT key, fence FROM tenure_lease WHERE key IN :keys"


class LeaseBatch:
    """What the leases of a batch share; `left` are the keys of the members that may be acked as members."""

    __slots__ = ("is_expanded", "key", "left")

    def __init__(self, key: int, keys: Iterable[int]) -> None:
        self.key = key  # the smallest key; a job is fresh only once, so no other batch ever has it
        self.left = set(keys)
        self.is_expanded = False


def expand(rows: Rows, batches: Sequence[int]) -> None:
    """Turn batches into rows of tenure_lease, in the transaction of the caller; those that are gone are left out."""
    locked = [key for (key,) in rows(LOCK, {"batches": list(batches)})] if batches else []
    if locked:
        rows(EXPAND, {"batches": locked})
        rows(DROP, {"batches": locked})


def expand_batches_of(rows: Rows, keys: Sequence[int]) -> None:
    """Expand every batch that one of these jobs is a member of."""
    expand(rows, sorted({batch for _, batch in _members(rows, keys)}))


def fences_of_leased(rows: Rows, keys: Sequence[int]) -> dict[int, int]:
    """The fences of those of these jobs that are leased, by key; a batch that is expanded meanwhile is seen as rows."""
    members = {key: 1 for key, _ in _members(rows, keys)}
    return members | dict(rows(LEASED, {"keys": list(keys)})) if keys else {}


def _members(rows: Rows, keys: Sequence[int]) -> list[Row]:
    return rows(MEMBERS, {"keys": list(keys), "first": min(keys), "last": max(keys)}) if keys else []


def expand_leases(dialect: Dialect, leases: Iterable[Lease]) -> None:
    """Expand the batches of these leases, before a verb that knows only rows of tenure_lease."""
    batches: dict[int, LeaseBatch] = {
        lease.batch.key: lease.batch for lease in leases if lease.batch is not None and not lease.batch.is_expanded
    }
    if batches:
        dialect.transact_volatile(lambda rows: expand(rows, sorted(batches)))
        for batch in batches.values():
            batch.is_expanded = True
            batch.left.clear()
