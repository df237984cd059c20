"""Pages of jobs in memory: sorted when they are asked for."""

from collections.abc import Iterable

from msgspec import structs

from tenure.backends.asking import ENDED, JobRecord


def page_of(
    records: Iterable[tuple[JobRecord, int]], state: str, limit: int, cursor: str | None
) -> tuple[list[JobRecord], str | None]:
    """Of records of one state, each with its order of enqueue; a cursor is how many were shown."""

    def place(item: tuple[JobRecord, int]) -> tuple[int, int]:
        record, order = item
        if state in ENDED:
            return -(record.finished_at or 0), -order
        when = {"delayed": record.due_at, "leased": record.lease_until or 0}
        return when.get(state, -record.priority), order

    start = int(cursor or 0)
    ordered = [structs.replace(record, body=None) for record, _ in sorted(records, key=place)]
    found = ordered[start : start + limit]
    return found, str(start + limit) if len(found) == limit else None
