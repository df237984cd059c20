"""Shared by every job archive: how records are merged and encoded (see `parts.JobArchive`).

A worker writes the record of each job that it settles; the record with the highest fence wins.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import structs

from tenure.backends.records import JobRecord
from tenure.definition.failure import KEPT_FAILURES

encode = msgspec.json.Encoder().encode
decode_record = msgspec.json.Decoder(JobRecord).decode


def sort_time(record: JobRecord) -> int:
    """When the job ended, or will run again."""
    return record.finished_at or record.due_at


def merge_records(known: Mapping[str, JobRecord], records: Sequence[JobRecord]) -> dict[str, JobRecord]:
    """The records to store instead of the known ones, by id; a record with a lower fence is ignored."""
    merged: dict[str, JobRecord] = {}
    for record in records:
        before = merged.get(record.id) or known.get(record.id)
        if before is None:
            merged[record.id] = record
        elif before.fence <= record.fence:
            added = tuple(failure for failure in record.failures if failure not in before.failures)
            merged[record.id] = structs.replace(record, failures=(*before.failures, *added)[-KEPT_FAILURES:])
    return merged
