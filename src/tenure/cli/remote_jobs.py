"""The commands `tenure jobs`, `tenure dead` and `tenure workers` through a remote dashboard."""

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlencode

import click
import msgspec

from tenure.app.dashboard.action_record import ActionRecord
from tenure.app.dashboard.job import JobDetails, OneJobQuery
from tenure.app.dashboard.job_actions import CancelJobs, RescheduleJobs, RetryJobs
from tenure.app.dashboard.job_now import Clause
from tenure.app.dashboard.job_rows import JobRow
from tenure.app.dashboard.jobs import LARGEST_SIZE, SMALLEST_SIZE, JobsQuery
from tenure.app.dashboard.letter_actions import DeleteLetters, ReplayLetters
from tenure.app.dashboard.letters import LetterRow, LettersQuery
from tenure.app.dashboard.workers import DrainWorker, ResumeWorker, WorkerCard, WorkersQuery
from tenure.cli import output
from tenure.cli.arguments import number_or_text
from tenure.cli.errors import CommandError
from tenure.cli.remote import RemoteDashboard
from tenure.cli.tables import Column, print_rows

_JOB_COLUMNS = (
    Column("id", show=output.short_id),
    Column("state"),
    Column("queue", rank=2),
    Column("job"),
    Column("name", rank=5),
    Column("tries", rank=6),
    Column("enqueued_at", "enqueued", rank=1),
    Column("why", rank=1),
)
_LETTER_COLUMNS = (
    Column("id", show=output.short_id),
    Column("queue", rank=2),
    Column("job"),
    Column("died_at", "died", rank=1),
    Column("reason", rank=3),
    Column("error"),
)
_WORKER_COLUMNS = (
    "id",
    "lanes",
    Column("started_at", "started", rank=2),
    Column("seen_at", "seen", rank=3),
    Column("running", rank=1),
    Column("draining_since", "draining since", rank=1),
)


def list_jobs(remote: RemoteDashboard, limit: int, as_json: bool, filters: dict[str, Any]) -> None:
    """As `tenure jobs list`."""
    remote.refuse(filters["name"], "--name")
    query = JobsQuery(
        state=filters["states"],
        queue=_one(filters["queue"]),
        handler=_one(filters["handler"]),
        tag=filters["tags"],
        text=_one(filters["text"]),
        since=filters["newer_than"] or "",
        until=filters["older_than"] or "",
        size=min(max(limit, SMALLEST_SIZE), LARGEST_SIZE),
    )
    rows: list[JobRow] = []
    while True:
        page = remote.read(query)
        if page.fault is not None:
            raise CommandError(page.fault.text)
        rows += page.rows
        if len(rows) >= limit or page.older is None:
            break
        query = msgspec.structs.replace(query, after=parse_qs(page.older)["after"][0])
    _print(_JOB_COLUMNS, [_job_fields(row) for row in rows[:limit]], as_json, "no such jobs")
    if len(rows) > limit or page.older is not None or page.stopped_after is not None:
        click.echo("there may be more: use --limit to list more, or narrow the search to reach older jobs", err=True)


def show_job(remote: RemoteDashboard, id: str, as_json: bool) -> None:
    """As `tenure jobs show`."""
    page = remote.read(OneJobQuery(id=resolve_id(remote, id)))
    if as_json:
        output.print_json(msgspec.to_builtins(page))
        return
    output.print_facts({**_title(page), **_known(page.facts)})
    output.print_facts({"payload": page.payload_note or page.payload, "result": page.result_note or page.result})
    for step in page.steps:
        error = f": {step.error_type}: {step.error}" if step.error_type else ""
        click.echo(f"{output.format_value(step.start)} {output.format_value(f'{step.title} {step.place}{error}')}")
    trace = next((step.trace for step in page.steps if step.trace), None)
    if trace:
        click.echo(output.format_value(trace))


def retry_jobs(remote: RemoteDashboard, ids: Sequence[str], why: str | None, as_json: bool) -> None:
    print_counts(remote.act(RetryJobs(ids=resolve_ids(remote, ids)), why), as_json)


def cancel_jobs(remote: RemoteDashboard, ids: Sequence[str], why: str | None, as_json: bool) -> None:
    print_counts(remote.act(CancelJobs(ids=resolve_ids(remote, ids)), why), as_json)


def reschedule_jobs(
    remote: RemoteDashboard, ids: Sequence[str], delay: str | None, at: str | None, why: str | None, as_json: bool
) -> None:
    is_number = delay is not None and isinstance(number_or_text(delay), float)
    wait = f"{delay}s" if is_number else delay or ""
    command = RescheduleJobs(ids=resolve_ids(remote, ids), delay=wait, at=at or "")
    print_counts(remote.act(command, why), as_json)


def list_letters(remote: RemoteDashboard, limit: int, as_json: bool, filters: dict[str, Any]) -> None:
    """As `tenure dead list`, the newest first."""
    given = _letter_filter(filters)
    query = LettersQuery(
        queue=_one(given.get("queue")), handler=_one(given.get("handler")), reason=_one(given.get("reason")),
        text=_one(given.get("text")), since=given.get("since", ""), until=given.get("until", ""), by="none",
    )  # fmt: skip
    rows: list[LetterRow] = []
    while True:
        page = remote.read(query)
        if page.fault is not None or page.unavailable is not None:
            raise CommandError(page.fault.text if page.fault else page.unavailable or "")
        rows += page.letters
        if len(rows) >= limit or page.next is None:
            break
        query = msgspec.structs.replace(query, after=page.next)
    fields = [{**_known(row), "job": row.handler} for row in rows[:limit]]
    _print(_LETTER_COLUMNS, fields, as_json, "no dead letters")


def replay_letters(
    remote: RemoteDashboard,
    ids: Sequence[str],
    filters: dict[str, Any],
    why: str | None,
    as_json: bool,
) -> None:
    filter = urlencode(_letter_filter(filters))
    command = ReplayLetters(ids=resolve_ids(remote, ids), filter=filter, all=not ids)
    print_counts(remote.act(command, why), as_json)


def delete_letters(
    remote: RemoteDashboard,
    ids: Sequence[str],
    filters: dict[str, Any],
    why: str | None,
    as_json: bool,
) -> None:
    filter = urlencode(_letter_filter(filters))
    command = DeleteLetters(ids=resolve_ids(remote, ids), filter=filter, all=not ids)
    print_counts(remote.act(command, why), as_json)


def preview_letters(
    remote: RemoteDashboard,
    verb: Literal["replay", "delete"],
    ids: Sequence[str],
    filters: dict[str, Any],
) -> str:
    """The question before the command: what it would do."""
    command = ReplayLetters if verb == "replay" else DeleteLetters
    chosen = command(ids=resolve_ids(remote, ids), filter=urlencode(_letter_filter(filters)), all=not ids)
    return remote.preview(chosen).question


def list_workers(remote: RemoteDashboard, as_json: bool) -> None:
    """As `tenure workers`."""
    found = remote.read(WorkersQuery()).workers
    if found is None:
        raise CommandError("this backend has no registry of workers")
    if as_json:
        output.print_json(msgspec.to_builtins(found))
    else:
        _print(_WORKER_COLUMNS, [_worker_fields(worker) for worker in found], False, "no worker is alive")


def drain_worker(remote: RemoteDashboard, worker: str, reason: str | None) -> bool:
    return bool(sum(remote.act(DrainWorker(worker=worker, reason=reason), reason).counts.values()))


def resume_worker(remote: RemoteDashboard, worker: str) -> bool:
    return bool(sum(remote.act(ResumeWorker(worker=worker)).counts.values()))


def resolve_ids(remote: RemoteDashboard, texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(resolve_id(remote, text) for text in texts))


def resolve_id(remote: RemoteDashboard, text: str) -> str:
    """The id of the only job whose id starts or ends so; the text itself if there is none, or several."""
    if output.UUID.fullmatch(text):
        return text
    found = remote.read(JobsQuery(q=text)).redirect or ""
    return unquote(found.removeprefix("/jobs/")) if found.startswith("/jobs/") else text


def print_counts(record: ActionRecord, as_json: bool) -> None:
    """How many jobs had each result."""
    if as_json:
        output.print_json({**record.counts, "audit": record.id})
    else:
        words = [f"{count} {result.replace('_', ' ')}" for result, count in sorted(record.counts.items())]
        click.echo(", ".join(words) or "nothing was changed")


def _job_fields(row: JobRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": row.state,
        "queue": row.queue,
        "job": row.handler,
        "name": row.name,
        "tries": row.tries,
        "enqueued_at": row.enqueued_at,
        "why": _text(row.now),
    }


def _text(clause: Clause) -> str:
    at = None if clause.at is None else output.format_value(clause.at)
    seconds = None if clause.seconds is None else output.format_seconds(clause.seconds)
    return " ".join(part for part in (clause.text, at, seconds, clause.rest) if part)


def _title(page: JobDetails) -> dict[str, Any]:
    answer = page.explanation[0].text if page.explanation else None
    return {"id": page.id, "state": page.state, "job": page.handler, "name": page.name, "explanation": answer}


def _worker_fields(worker: WorkerCard) -> dict[str, Any]:
    lanes = [
        f"{lane.name or lane.runner} ({', '.join(lane.queues)}) {lane.used}/{lane.places}" for lane in worker.lanes
    ]
    return {
        "id": worker.id,
        "lanes": "; ".join(lanes),
        "started_at": worker.started_at,
        "seen_at": worker.seen_at,
        "running": len(worker.runs) + worker.more_runs,
        "draining_since": worker.draining_since,
    }


def _letter_filter(filters: dict[str, Any]) -> dict[str, str]:
    """The options of the command as parameters of the page."""
    names = {"queue": "queue", "handler": "handler", "reason": "reason", "text": "text"}
    found = {key: filters[option] for key, option in names.items() if filters.get(option)}
    times = {"since": filters.get("newer_than"), "until": filters.get("older_than")}
    return {**found, **{key: value for key, value in times.items() if value}}


def _known(value: Any) -> dict[str, Any]:
    """The fields of a struct that have a value; times stay times."""
    return {name: each for name, each in msgspec.structs.asdict(value).items() if each not in (None, (), "")}


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _print(columns: Sequence[str | Column], rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        output.print_json(rows)
    elif rows:
        print_rows(columns, rows)
    else:
        click.echo(nothing)
