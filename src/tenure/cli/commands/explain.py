"""`tenure explain`: the reason why a job is not running, or how it ended."""

from typing import Any

import click
from msgspec import structs

from tenure.app import Tenure
from tenure.app.explain.collect import explained
from tenure.app.explain.decide import explain as decide
from tenure.app.explain.facts import AttemptSummary, ExplainFacts, Explanation, Reason
from tenure.backends.ledger import TickRecord
from tenure.backends.records import JobRecord
from tenure.cli import output
from tenure.cli.app_loader import app_as_deployed
from tenure.cli.job_ids import resolve_id
from tenure.cli.job_view import last_error
from tenure.errors import JobNotFound


@click.command()
@click.argument("job")
@output.json_option
def explain(job: str, as_json: bool) -> None:
    """Say why JOB is not running, or how it ended and what happened in each attempt."""
    with app_as_deployed() as (app, has_handlers):
        job = resolve_id(app, job)
        found = explained(app, job, has_handlers=has_handlers) or _explain_dead_letter(app, job)
    if found is None:
        raise JobNotFound(f"no job {job!r} is known here; it may have been deleted, or be on another backend")
    record, explanation = found
    if as_json:
        output.print_json(_fields(record, explanation))
    else:
        _print_explanation(record, explanation)


def _explain_dead_letter(app: Tenure, id: str) -> tuple[JobRecord, Explanation] | None:
    """A broker that cannot find a job by id still has its dead letters."""
    if app.backend.jobs is not None or app.backend.dead_letters is None:
        return None
    for letter in app.dead_letters().get([id]):
        return letter, decide(ExplainFacts(job=letter, now=app.clock.now()))
    return None


def _print_explanation(record: JobRecord | TickRecord, explanation: Explanation) -> None:
    answer, *others = explanation.reasons
    click.echo(f"{output.format_value(record.id)}: {_describe(record)}, {record.state}")
    click.echo(output.bold(_format_reason(answer)))
    _print_advice(answer)
    for reason in others:
        click.echo(f"also: {_format_reason(reason)}")
        _print_advice(reason)
    for attempt in explanation.attempts:
        click.echo(_format_attempt(attempt))


def _describe(record: JobRecord | TickRecord) -> str:
    if isinstance(record, TickRecord):
        return f"a tick of schedule {output.format_value(record.schedule)}"
    return f"{output.format_value(record.handler)} on queue {output.format_value(record.queue)}"


def _format_reason(reason: Reason) -> str:
    since = f", since {output.format_value(output.as_datetime(reason.since))}" if reason.since else ""
    until = f" until {output.format_value(output.as_datetime(reason.until))}" if reason.until else ""
    return f"{output.format_value(reason.text)}{since}{until}"


def _print_advice(reason: Reason) -> None:
    if reason.advice:
        click.echo(f"  {output.format_value(reason.advice)}")


def _format_attempt(attempt: AttemptSummary) -> str:
    failure, run = attempt.failure, attempt.run
    result = "succeeded" if failure is None else f"{failure.type}: {failure.message}"
    at = failure.at if failure else run.started if run else None
    worker = (failure.worker if failure else None) or (run.worker if run else None)
    where = f" on {output.format_value(worker)}" if worker else ""
    took = f", ran {output.format_seconds(run.seconds)}" if run else ""
    when = output.format_value(output.as_datetime(at))
    return f"attempt {attempt.number} at {when}{where}{took}: {output.format_value(result)}"


def _fields(record: JobRecord | TickRecord, explanation: Explanation) -> dict[str, Any]:
    reasons = [_reason_fields(reason) for reason in explanation.reasons]
    job = {"queue": record.queue, "job": record.handler} if isinstance(record, JobRecord) else {"job": None}
    return {
        "id": record.id,
        "state": record.state,
        "schedule": record.schedule if isinstance(record, TickRecord) else None,
        "queue": None,
        **job,
        "answer": reasons[0],
        "also": reasons[1:],
        "attempts": [_attempt_fields(attempt) for attempt in explanation.attempts],
    }


def _reason_fields(reason: Reason) -> dict[str, Any]:
    times = {"since": output.as_datetime(reason.since), "until": output.as_datetime(reason.until)}
    return {**structs.asdict(reason), **times}


def _attempt_fields(attempt: AttemptSummary) -> dict[str, Any]:
    failure, run = attempt.failure, attempt.run
    return {
        "attempt": attempt.number,
        "at": output.as_datetime(failure.at if failure else run.started if run else None),
        "error": last_error([failure]) if failure else None,
        "worker": (failure.worker if failure else None) or (run.worker if run else None),
        "seconds": run.seconds if run else None,
        "cpu": run.cpu if run else None,
        "memory": run.memory if run else None,
    }
