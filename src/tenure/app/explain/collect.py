"""Collects the facts for `tenure explain` from the backend, the store and the app; `decide` explains them."""

from msgspec import structs

from tenure.app.explain.decide import explain, explain_tick
from tenure.app.explain.facts import ExplainFacts, Explanation, Guarded, Obstacle
from tenure.app.tenure import Tenure
from tenure.backends.ledger import TickRecord
from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND, to_microseconds
from tenure.errors import ForbiddenHandler, MessageRejected, SettingsError, UnknownHandler
from tenure.execution.attempt import check_version
from tenure.guards.states import Paused, drain_key, pause_key, unpack
from tenure.guards.store import Store
from tenure.wire.envelope import Envelope
from tenure.worker.pipeline import MAY_BE_DEPLOYED, reason_of

MAX_READ = 100  # ready jobs that are read to find the position of one


def explained(app: Tenure, id: str, *, has_handlers: bool) -> tuple[JobRecord | TickRecord, Explanation] | None:
    """Why this job, or the tick that will enqueue it, does not run; None if neither is known.

    Without `has_handlers` the app was built from settings only, so a missing handler proves nothing.
    """
    jobs = app.parts().jobs
    job = None if jobs is None else jobs.find(id)
    if job is not None:
        return job, explain(collect_facts(app, job, has_handlers=has_handlers))
    tick = _tick(app, id)
    return None if tick is None else (tick, explain_tick(tick))


def collect_facts(app: Tenure, job: JobRecord, *, has_handlers: bool) -> ExplainFacts:
    registry = app.parts().workers
    workers = None if registry is None else tuple(registry.alive())
    facts = ExplainFacts(job=job, now=app.clock.now(), workers=workers, seconds=app.settings.lease)
    if job.finished_at is not None:
        return facts
    if job.state != "leased" and job.body is not None:  # the archive beside a broker has no bodies
        envelope, obstacle = opened(app, job, has_handlers=has_handlers)
        facts = structs.replace(facts, envelope=envelope, obstacle=obstacle, max_read=MAX_READ, ahead=_ahead(app, job))
    store = _store(app)
    return facts if store is None else _with_guards(facts, store, app)


def _with_guards(facts: ExplainFacts, store: Store, app: Tenure) -> ExplainFacts:
    """Adds the guards, and replaces `now` by the time of the store, whose clock decides about leases and guards."""
    guards = app.guards.rules.guards_of(facts.envelope) if facts.envelope else ()
    pause, drains = pause_key(facts.job.queue), {worker.id: drain_key(worker.id) for worker in facts.listening}
    now, states = store.read([pause, *drains.values(), *(guard.key for guard in guards)])
    paused = unpack(states.get(pause))
    return structs.replace(
        facts,
        now=now,
        paused=paused if isinstance(paused, Paused) else None,
        draining={id: state for id, key in drains.items() if isinstance(state := unpack(states.get(key)), Paused)},
        guards=tuple(Guarded(guard, unpack(states.get(guard.key))) for guard in guards),
    )


def opened(app: Tenure, job: JobRecord, *, has_handlers: bool) -> tuple[Envelope | None, Obstacle | None]:
    """The envelope, and why a worker with the handlers and keys of this app would refuse the message."""
    envelope: Envelope | None = None
    try:
        envelope = app.open_backend().wire.open(job.body or b"", job.queue, job.id)
        check_version(app.registry.resolve(envelope.job, job.queue), envelope)
    except MAY_BE_DEPLOYED as error:
        if isinstance(error, UnknownHandler) and not has_handlers:
            return envelope, None
        until = _first_due(job, envelope) + round(app.settings.unknown_timeout * MICROSECOND)
        return envelope, Obstacle(reason_of(error), str(error), until)
    except (ForbiddenHandler, MessageRejected) as error:
        return envelope, Obstacle(reason_of(error), str(error))
    return envelope, None


def _first_due(job: JobRecord, envelope: Envelope | None) -> int:
    """When it could first start; a job that was postponed since then is due later."""
    if job.state != "delayed" or job.fence == 0:
        return job.due_at
    return to_microseconds(envelope.schedule) if envelope and envelope.schedule else job.enqueued_at


def _ahead(app: Tenure, job: JobRecord) -> int | None:
    if job.state != "ready" or app.backend.jobs is None:
        return None
    page, _ = app.backend.jobs.page("ready", job.queue, limit=MAX_READ)
    return next((position for position, each in enumerate(page) if each.id == job.id), MAX_READ)


def _store(app: Tenure) -> Store | None:
    """The store of guards, None if there is none."""
    try:
        return app.guards.store()
    except SettingsError:
        return None


def _tick(app: Tenure, id: str) -> TickRecord | None:
    try:
        return app.cron.ledger.known([id]).get(id)
    except SettingsError:
        return None
