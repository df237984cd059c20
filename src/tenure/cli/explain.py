"""`tenure explain`: one answer to the question why a job is not running."""

from typing import Any

import click
from msgspec import structs

from tenure.app import Tenure
from tenure.app.explaining.decision import explain as decide
from tenure.app.explaining.facts import Attempt, Explanation, Facts, Reason
from tenure.app.explaining.gathering import explained
from tenure.backends.asking import Inspectable, JobRecord
from tenure.backends.ledger import TickRecord
from tenure.cli import printing, records
from tenure.cli.loading import app_as_deployed
from tenure.errors import JobNotFound


@click.command()
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(job: str, as_json: bool) -> None:
    """Tell why JOB is not running, or how it ended and what happened in each attempt."""
    with app_as_deployed() as (app, has_handlers):
        found = explained(app, job, has_handlers=has_handlers) or _letter(app, job)
    if found is None:
        raise JobNotFound(f"no job {job!r} is known here; it may have been trimmed, or live on another backend")
    record, explanation = found
    if as_json:
        printing.as_json(_members(record, explanation))
    else:
        _show(record, explanation)


def _letter(app: Tenure, id: str) -> tuple[JobRecord, Explanation] | None:
    """A broker that finds no single job still has its dead letters."""
    if isinstance(app.backend, Inspectable):
        return None
    for letter in records.dead_among(app, [id]):
        return letter, decide(Facts(job=letter, now=app.clock.now()))
    return None


def _show(record: JobRecord | TickRecord, explanation: Explanation) -> None:
    answer, *others = explanation.reasons
    click.echo(f"{printing.text(record.id)}: {_named(record)}, {record.state}")
    click.echo(printing.bold(_sentence(answer)))
    _advise(answer)
    for reason in others:
        click.echo(f"also: {_sentence(reason)}")
        _advise(reason)
    for attempt in explanation.attempts:
        click.echo(_told(attempt))


def _named(record: JobRecord | TickRecord) -> str:
    if isinstance(record, TickRecord):
        return f"a tick of schedule {printing.text(record.schedule)}"
    return f"{printing.text(record.handler)} on queue {printing.text(record.queue)}"


def _sentence(reason: Reason) -> str:
    since = f", since {printing.text(printing.moment(reason.since))}" if reason.since else ""
    until = f" until {printing.text(printing.moment(reason.until))}" if reason.until else ""
    return f"{printing.text(reason.text)}{since}{until}"


def _advise(reason: Reason) -> None:
    if reason.advice:
        click.echo(f"  {printing.text(reason.advice)}")


def _told(attempt: Attempt) -> str:
    failure, run = attempt.failure, attempt.run
    story = "succeeded" if failure is None else f"{failure.type}: {failure.message}"
    at = failure.at if failure else run.started if run else None
    worker = (failure.worker if failure else None) or (run.worker if run else None)
    whose = f" on {printing.text(worker)}" if worker else ""
    took = f", ran {printing.seconds(run.seconds)}" if run else ""
    return f"attempt {attempt.number} at {printing.text(printing.moment(at))}{whose}{took}: {printing.text(story)}"


def _members(record: JobRecord | TickRecord, explanation: Explanation) -> dict[str, Any]:
    reasons = [_reason(reason) for reason in explanation.reasons]
    job = {"queue": record.queue, "job": record.handler} if isinstance(record, JobRecord) else {"job": None}
    return {
        "id": record.id,
        "state": record.state,
        "schedule": record.schedule if isinstance(record, TickRecord) else None,
        "queue": None,
        **job,
        "answer": reasons[0],
        "also": reasons[1:],
        "attempts": [_attempt(attempt) for attempt in explanation.attempts],
    }


def _reason(reason: Reason) -> dict[str, Any]:
    moments = {"since": printing.moment(reason.since), "until": printing.moment(reason.until)}
    return {**structs.asdict(reason), **moments}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    failure, run = attempt.failure, attempt.run
    return {
        "attempt": attempt.number,
        "at": printing.moment(failure.at if failure else run.started if run else None),
        "error": records.error_of([failure]) if failure else None,
        "worker": (failure.worker if failure else None) or (run.worker if run else None),
        "seconds": run.seconds if run else None,
        "cpu": run.cpu if run else None,
        "memory": run.memory if run else None,
    }
