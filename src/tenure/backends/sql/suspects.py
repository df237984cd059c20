"""The suspects of a SQL backend: parked rows with the vanished count SUSPECT, under a key for each queue.

A row with that count is never in tenure_ready, so that no claim reads it: every statement that makes jobs ready parks
the suspects among them instead. A suspect that waits for a guard, or for its time, becomes a suspect here afterwards.
"""

from collections.abc import Sequence

from tenure.backends.messages import SUSPECT, Lease, suspects_key
from tenure.backends.sql.control import DROP_PARKED
from tenure.backends.sql.dialect import Dialect, Grant, Rows
from tenure.clock import MICROSECOND

HAS_SUSPECTS = "SELECT key FROM tenure_parked WHERE guard IN :guards LIMIT 1"
FIRST_SUSPECT = """
SELECT key, rank, attempts, crashes, fence + 1 FROM tenure_parked WHERE guard = :guard
ORDER BY rank, key LIMIT 1 FOR UPDATE SKIP LOCKED
"""
GRANT = """
INSERT INTO tenure_lease (key, queue, rank, attempts, crashes, fence, vanished, owner, expires, asked)
SELECT key, queue, rank, attempts, crashes, fence + 1, vanished, :owner, :expires, 0
FROM tenure_parked WHERE key IN :keys
"""
BODY = "SELECT id, due, body, only_one FROM tenure_job WHERE key IN :keys"


def has_suspects(dialect: Dialect, queues: Sequence[str]) -> bool:
    return bool(dialect.read(HAS_SUSPECTS, {"guards": [suspects_key(queue) for queue in queues]}))


def lease_suspect(dialect: Dialect, queues: Sequence[str], grant: Grant) -> list[Lease]:
    """A lease on the first suspect that no other worker takes at this moment."""

    def take(rows: Rows) -> list[Lease]:
        for queue in queues:
            for key, rank, attempts, crashes, fence in rows(FIRST_SUSPECT, {"guard": suspects_key(queue)}):
                page = {"keys": [key]}
                jobs = rows(BODY, page)
                if not jobs:  # another program deleted the job
                    rows(DROP_PARKED, page)
                    continue
                ((id, due, body, unique),) = jobs
                expires = dialect.time_in(rows) + round(grant.seconds * MICROSECOND)
                rows(GRANT, {**page, "owner": grant.owner, "expires": expires})
                rows(DROP_PARKED, page)
                return [
                    Lease(
                        id=id,
                        queue=queue,
                        body=body,
                        owner=grant.owner,
                        fence=fence,
                        attempts=attempts,
                        crashes=crashes,
                        vanished=SUSPECT,
                        priority=-rank,
                        due=due,
                        token=key,
                        is_unique=unique is not None,
                    )
                ]
        return []

    return dialect.transact(take)
