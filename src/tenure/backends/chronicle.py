"""Chronicle: what became of jobs that wait and run elsewhere, on a broker which forgets them.

A worker writes down what it has settled; the last word on a job is that of its highest fence.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import structs

from tenure.backends.asking import JobRecord

KEPT_FAILURES = 25
write = msgspec.json.Encoder().encode
read = msgspec.json.Decoder(JobRecord).decode


class Chronicle(Protocol):
    """Records of jobs; see the conformance suite for what each verb promises."""

    def note(self, records: Sequence[JobRecord]) -> None:
        """Keep these in the place of what was noted of the same ids, unless under a higher fence; failures add up."""
        ...

    def find(self, id: str) -> JobRecord | None: ...

    def queues_with(self, state: str) -> list[str]: ...

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        """Jobs of one state and queue, the newest first, and the cursor of the next page, None after the last.

        With `before`, given for each page, only those whose moment was before this time.
        """
        ...

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        """Forget up to `limit` jobs of this state, and queue, whose moment was before this time; how many."""
        ...


@runtime_checkable
class Chronicled(Protocol):
    """Stores that keep a chronicle."""

    chronicle: Chronicle


def moment(record: JobRecord) -> int:
    """When it ended, or is to run again."""
    return record.finished_at or record.due_at


def merged(known: Mapping[str, JobRecord], records: Sequence[JobRecord]) -> dict[str, JobRecord]:
    """What is to be kept instead of what is known, by id; a lower fence has nothing to say."""
    kept: dict[str, JobRecord] = {}
    for record in records:
        before = kept.get(record.id) or known.get(record.id)
        if before is None:
            kept[record.id] = record
        elif before.fence <= record.fence:
            added = tuple(failure for failure in record.failures if failure not in before.failures)
            kept[record.id] = structs.replace(record, failures=(*before.failures, *added)[-KEPT_FAILURES:])
    return kept
