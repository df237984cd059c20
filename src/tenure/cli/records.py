"""What is known about a job as plain members: the backend's facts and the sealed envelope, merged."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, structs

from tenure.app import Tenure
from tenure.backends.asking import DeadLetters, Inspectable, JobRecord
from tenure.backends.letters import Filter, pages, told
from tenure.backends.opening import without_secrets
from tenure.cli.failures import CommandError
from tenure.cli.printing import moment
from tenure.definition.failure import Failure
from tenure.errors import JobNotFound, MessageRejected
from tenure.events import Run
from tenure.wire.envelope import Wire

_SEALED = (
    *("max_retries", "timeout", "idempotency_key", "single_instance", "max_crashes", "backoff"),
    *("schedule", "expires_at", "meta", "kid"),
)


def inspectable(app: Tenure) -> Inspectable:
    if isinstance(app.backend, Inspectable):
        return app.backend
    raise CommandError(f"the backend {without_secrets(app.settings.url)!r} keeps no jobs to look at")


def dead_letters(app: Tenure) -> DeadLetters:
    if isinstance(app.backend, DeadLetters):
        return app.backend
    raise CommandError(f"the backend {without_secrets(app.settings.url)!r} keeps no dead letters")


def find(app: Tenure, id: str) -> JobRecord:
    record = app.shelves().finder.find(id)
    if record is not None and record.state == "dead" and record.body is None:
        letters = dead_among(app, [id])  # the broker has the body
        return next(letters, record)
    if record is None:
        again = (
            "" if isinstance(app.backend, Inspectable) else "it may not have run yet, which this broker does not tell; "
        )
        raise JobNotFound(f"no job {id!r} is known here; {again}it may have been trimmed, or live on another backend")
    return record


def dead_among(app: Tenure, ids: Collection[str]) -> Iterator[JobRecord]:
    """Those of these ids that are dead letters; a broker that finds no single job is gone through."""
    if isinstance(app.backend, Inspectable):
        found = map(app.backend.find, dict.fromkeys(ids))
        return (record for record in found if record is not None and record.state == "dead")
    wanted = set(ids)
    return (letter for page in pages(dead_letters(app), Filter()) for letter in page if letter.id in wanted)


def summary(record: JobRecord) -> dict[str, Any]:
    """A dead letter in a list."""
    return {
        "id": record.id,
        "queue": record.queue,
        "job": record.handler,
        "name": record.name,
        "reason": record.reason,
        "error": error_of(record.failures),
        "attempts": record.attempts,
        "crashes": record.crashes,
        "fence": record.fence,
        "died_at": moment(record.finished_at),
        "enqueued_at": moment(record.enqueued_at),
    }


def line(record: JobRecord) -> dict[str, Any]:
    """A job in a list of any state."""
    return {
        "id": record.id,
        "state": record.state,
        "queue": record.queue,
        "job": record.handler,
        "name": record.name,
        "attempts": record.attempts,
        "enqueued_at": moment(record.enqueued_at),
        "due_at": moment(record.due_at),
        "finished_at": moment(record.finished_at),
        "why": error_of(record.failures) or record.reason,
    }


def error_of(failures: Sequence[Failure]) -> str | None:
    """The last error, as `Type: message`."""
    return told(failures[-1]) if failures else None


def everything(record: JobRecord, wire: Wire) -> dict[str, Any]:
    """All that is known, with the payload if the message opens; `unreadable` says why it does not."""
    return {
        "id": record.id,
        "state": record.state,
        "progress": _progress(record),
        "cancel_asked": record.cancel_asked,
        "queue": record.queue,
        "job": record.handler,
        "name": record.name,
        "reason": record.reason,
        "error": error_of(record.failures),
        "priority": record.priority,
        "attempts": record.attempts,
        "crashes": record.crashes,
        "fence": record.fence,
        "enqueued_at": moment(record.enqueued_at),
        "due_at": moment(record.due_at),
        "finished_at": moment(record.finished_at),
        "seconds": record.seconds,
        "output": record.output,
        "run": _run(record.run),
        "owner": record.owner,
        "lease_until": moment(record.lease_until),
        **_sealed(record, wire),
        "failures": [
            {**structs.asdict(each), "at": moment(each.at), "run": _run(each.run)} for each in record.failures
        ],
    }


def _run(run: Run | None) -> dict[str, Any] | None:
    return None if run is None else {**structs.asdict(run), "started": moment(run.started)}


def _progress(record: JobRecord) -> dict[str, float | None] | None:
    if record.progress is None:
        return None
    return {"done": _whole(record.progress.done), "total": _whole(record.progress.total)}


def _whole(value: float | None) -> float | None:
    """Most count in whole numbers: 40 reads better than 40.0."""
    return int(value) if value is not None and value == int(value) else value


def _sealed(record: JobRecord, wire: Wire) -> dict[str, Any]:
    values: dict[str, Any] = {"payload": None, **dict.fromkeys(_SEALED), "unreadable": None}
    if record.body is None:
        return {**values, "unreadable": "the body of a job that ended well is not kept"}
    try:
        envelope = wire.open(record.body, record.queue)
        payload = msgspec.json.decode(envelope.payload)
    except (MessageRejected, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return {**values, "unreadable": f"{type(error).__qualname__}: {error}"}
    found = {name: getattr(envelope, name) for name in _SEALED}
    return {**values, "payload": payload, **{name: value for name, value in found.items() if value is not UNSET}}
