"""How rows of the tables become records of jobs; nothing here is on the hot path."""

from contextlib import suppress
from typing import Any

import msgspec

from tenure.backends.records import JobRecord
from tenure.backends.sql.dialect import Dialect, Row
from tenure.definition.failure import Failure
from tenure.events import Run

FAILURES = "SELECT id, record FROM tenure_failure WHERE id IN :ids ORDER BY id, fence"
_JOBS_BY_KEY = "SELECT key, id, -rank, handler, name, enqueued, due, {body}, tags FROM tenure_job WHERE key IN :keys"
GUARDS = "SELECT key, guard FROM tenure_parked WHERE key IN :keys"
JOBS_BY_KEY = _JOBS_BY_KEY.format(body="NULL")
JOBS_AND_BODIES_BY_KEY = _JOBS_BY_KEY.format(body="body")
_COLUMNS = (
    *("id", "queue", "priority", "handler", "name", "state", "attempts", "crashes", "fence"),
    *("enqueued_at", "due_at", "finished_at", "owner", "seconds", "reason", "output", "body", "run", "tags"),
    "waits_for",
)
BODY_COLUMN = _COLUMNS.index("body")
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_run = msgspec.json.Decoder(Run).decode


def with_jobs(dialect: Dialect, narrow: list[Row], statement: str = JOBS_BY_KEY) -> list[Row]:
    """The columns of `_COLUMNS` of these rows of a page; the statement reads the jobs with or without bodies."""
    keys = [key for key, *_ in narrow]
    jobs = {key: job for key, *job in dialect.read(statement, {"keys": keys})} if keys else {}
    parked = [key for key, _, state, *_ in narrow if state == "parked"]
    guards: dict[int, str] = dict(dialect.read(GUARDS, {"keys": parked})) if parked else {}
    found: list[Row] = []
    for key, queue, *counts, finished, owner, seconds, reason, output, run, delayed_until, _, _ in narrow:
        if key in jobs:  # else it was deleted meanwhile
            id, priority, handler, name, enqueued, due, body, tags = jobs[key]
            end = (finished, owner, seconds, reason, output, body, run, tags, guards.get(key))
            found.append((id, queue, priority, handler, name, *counts, enqueued, delayed_until or due, *end))
    return found


def read_failures(dialect: Dialect, ids: list[str]) -> dict[str, tuple[Failure, ...]]:
    found: dict[str, tuple[Failure, ...]] = dict.fromkeys(ids, ())
    for id, record in dialect.read(FAILURES, {"ids": ids}) if ids else ():
        with suppress(msgspec.MsgspecError, ValueError, TypeError, KeyError):  # one that cannot be read is left out
            found[id] += (_decode_failure(record),)
    return found


def may_have_failures(row: Row) -> bool:
    """Whether a lease of the job, given by the columns of `_COLUMNS`, can have ended other than well.

    A letter that was added without a lease may have a failure too.
    """
    state, fence = row[5], row[8]
    return bool(state == "dead" or fence > (state == "done"))


def job_record(row: tuple[Any, ...], failures: tuple[Failure, ...], **more: Any) -> JobRecord:
    """The record of a job from a row with the columns of `_COLUMNS`."""
    values: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    run = values["run"] = _run(values["run"])
    if run is not None and values["seconds"] is None:
        values["seconds"] = run.seconds
    values["tags"] = tuple(tags.split(",")) if (tags := values["tags"]) else ()
    return JobRecord(**values, failures=failures, **more)


def _run(text: str | None) -> Run | None:
    """The last attempt; one that cannot be read is left out."""
    if text is not None:
        with suppress(msgspec.MsgspecError, ValueError, TypeError):
            return _decode_run(text)
    return None
