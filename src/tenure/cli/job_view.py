"""How a job is shown: its JSON fields in lists and alone, and the printed form for people.

The fields of one job merge what the backend stores with what the sealed message contains.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec
from msgspec import UNSET, structs

from tenure.backends.job_filter import failure_text
from tenure.backends.records import JobRecord
from tenure.cli import output
from tenure.cli.attempt_table import print_attempts
from tenure.cli.output import as_datetime
from tenure.cli.tables import shows_tables
from tenure.definition.context import Progress
from tenure.definition.failure import Failure
from tenure.errors import MessageRejected
from tenure.events import Run
from tenure.wire.envelope import Wire

_MESSAGE_FIELDS = (
    *("max_retries", "timeout", "idempotency_key", "single_instance", "max_crashes", "backoff"),
    *("schedule", "expires_at", "meta", "kid"),
)


def job_row(record: JobRecord) -> dict[str, Any]:
    """A job in a list of any state."""
    return {
        "id": record.id,
        "state": record.state,
        "queue": record.queue,
        "job": record.handler,
        "name": record.name,
        "runs": record.runs,
        "attempts": record.attempts,
        "enqueued_at": as_datetime(record.enqueued_at),
        "due_at": as_datetime(record.due_at),
        "finished_at": as_datetime(record.finished_at),
        "why": last_error(record.failures) or record.reason,
        "tags": list(record.tags),
    }


def dead_letter_row(record: JobRecord) -> dict[str, Any]:
    """A dead letter in a list."""
    return {
        "id": record.id,
        "queue": record.queue,
        "job": record.handler,
        "name": record.name,
        "reason": record.reason,
        "error": last_error(record.failures),
        "runs": record.runs,
        "attempts": record.attempts,
        "crashes": record.crashes,
        "fence": record.fence,
        "died_at": as_datetime(record.finished_at),
        "enqueued_at": as_datetime(record.enqueued_at),
    }


def job_details(record: JobRecord, wire: Wire) -> dict[str, Any]:
    """All fields of a job, with the payload if the message can be opened; else `unreadable` gives the reason."""
    return {
        "id": record.id,
        "state": record.state,
        "progress": _progress_fields(record),
        "cancel_asked": record.cancel_asked,
        "queue": record.queue,
        "job": record.handler,
        "name": record.name,
        "reason": record.reason,
        "error": last_error(record.failures),
        "priority": record.priority,
        "runs": record.runs,
        "attempts": record.attempts,
        "crashes": record.crashes,
        "fence": record.fence,
        "enqueued_at": as_datetime(record.enqueued_at),
        "due_at": as_datetime(record.due_at),
        "finished_at": as_datetime(record.finished_at),
        "seconds": record.seconds,
        "output": record.output,
        "run": _run_fields(record.run),
        "owner": record.owner,
        "lease_until": as_datetime(record.lease_until),
        **_message_fields(record, wire),
        "failures": [
            {**structs.asdict(each), "at": as_datetime(each.at), "run": _run_fields(each.run)}
            for each in record.failures
        ],
        "tags": list(record.tags),
    }


def last_error(failures: Sequence[Failure]) -> str | None:
    """The last error, as `Type: message`."""
    return failure_text(failures[-1]) if failures else None


def print_job(details: Mapping[str, Any], as_json: bool) -> None:
    """Print what `job_details` returned."""
    if as_json:
        output.print_json(details)
        return
    failures, progress = details["failures"], details["progress"]
    shown = {
        "progress": progress and str(Progress(**progress)),
        "cancel_asked": details["cancel_asked"] or None,
        "failures": None,
        "run": _format_run(details["run"]) or None,
        "tags": ", ".join(details["tags"]) or None,
    }
    if shows_tables():
        shown["seconds"] = details["seconds"] and output.format_seconds(details["seconds"])
        output.print_facts({**details, **shown})
        print_attempts(details)
    else:
        output.print_facts({**details, **shown})
        for failure in failures:
            click.echo(_format_failure(failure))
    if failures and failures[-1]["trace"]:
        click.echo(output.format_value(failures[-1]["trace"]), nl=False)


def _format_failure(failure: Mapping[str, Any]) -> str:
    place = f" ({failure['place']})" if failure["place"] else ""
    error = f"{failure['type']}: {failure['message']}{place}"
    worker = f" on {output.format_value(failure['worker'])}" if failure["worker"] else ""
    run = f" ({_format_run(failure['run'])})" if failure["run"] else ""
    when = f"attempt {failure['attempt']} at {output.format_value(failure['at'])}{worker}{run}"
    return f"{when}: {output.format_value(error)}"


def _format_run(run: Mapping[str, Any] | None) -> str:
    """As `waited 0.2 s, ran 1.5 s, cpu 0.7 s, peak 31 MB`; unknown values are left out."""
    if run is None:
        return ""
    parts = [
        ("waited", run["wait"], output.format_seconds),
        ("ran", run["seconds"], output.format_seconds),
        ("cpu", run["cpu"], output.format_seconds),
        ("peak", run["memory"], output.format_megabytes),
        ("on", run["worker"], output.format_value),
    ]
    return ", ".join(f"{word} {format(value)}" for word, value, format in parts if value is not None)


def _run_fields(run: Run | None) -> dict[str, Any] | None:
    return None if run is None else {**structs.asdict(run), "started": as_datetime(run.started)}


def _progress_fields(record: JobRecord) -> dict[str, float | None] | None:
    if record.progress is None:
        return None
    return {"done": _int_if_whole(record.progress.done), "total": _int_if_whole(record.progress.total)}


def _int_if_whole(value: float | None) -> float | None:
    """Most handlers count in whole numbers: 40 reads better than 40.0."""
    return int(value) if value is not None and value == int(value) else value


def _message_fields(record: JobRecord, wire: Wire) -> dict[str, Any]:
    values: dict[str, Any] = {"payload": None, **dict.fromkeys(_MESSAGE_FIELDS), "unreadable": None}
    if record.is_erased:
        return {**values, "payload": "expired", "unreadable": "the payload of this job is no longer kept"}
    if record.body is None:
        return {**values, "unreadable": f"{record.state} jobs keep no message on this backend"}
    try:
        envelope = wire.open(record.body, record.queue)
        payload = msgspec.json.decode(envelope.payload)
    except (MessageRejected, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return {**values, "unreadable": f"{type(error).__qualname__}: {error}"}
    found = {name: getattr(envelope, name) for name in _MESSAGE_FIELDS}
    return {**values, "payload": payload, **{name: value for name, value in found.items() if value is not UNSET}}
