"""Steps: parts of packets that several verbs send, and the lease that comes of a claim."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from tenure.backends.contract import Abandon, Lease, Nack
from tenure.backends.sql.dialect import KEPT_FAILURES, failures
from tenure.backends.sql.mysql import statements as sql
from tenure.backends.sql.mysql.rows import Ready
from tenure.backends.sql.mysql.session import Session, numbers


def drop_ready(session: Session, queue: str, rows: Sequence[Ready]) -> list[str]:
    keys: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        keys[row.rank].append(row.key)
    return [session.fill(sql.DROP_READY, queue=queue, rank=rank, keys=numbers(same)) for rank, same in keys.items()]


def keep_failures(session: Session, verdicts: Sequence[Nack | Abandon]) -> list[str]:
    """Steps that keep what went wrong, the newest so many."""
    found = [(id, fence, msgspec.json.encode(failure).decode()) for id, fence, failure in failures(verdicts)]
    if not found:
        return []
    old = [id for id, fence, _ in found if fence > KEPT_FAILURES]
    trims = [session.fill(sql.TRIM_FAILURES, id, id, keep=KEPT_FAILURES) for id in old]
    return [session.rows(sql.FAILED, "(%s, %s, %s)", found), *trims]


def lease_of(queue: str, owner: str, row: Ready, id: str, due: int, body: bytes) -> Lease:
    return Lease(
        id=id,
        queue=queue,
        body=body,
        owner=owner,
        fence=row.fence + 1,
        attempts=row.attempts,
        crashes=row.crashes,
        suspect=bool(row.suspect),
        priority=-row.rank,
        due=due,
        token=row.key,
    )
