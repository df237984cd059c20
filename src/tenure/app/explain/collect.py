"""What `tenure explain` asks the backend, the store and the app; nothing here decides."""

from msgspec import structs

from tenure.app.explain.decide import explain, explain_tick
from tenure.app.explain.facts import ExplainFacts, Explanation, Guarded, Obstacle
from tenure.app.tenure import Tenure
from tenure.backends.ledger import TickRecord
from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND, to_microseconds
from tenure.errors import ForbiddenHandler, MessageRejected, SettingsError, UnknownHandler
from tenure.execution.attempt import check_version
from tenure.guards.states import Paused, pause_key, unpack
from tenure.guards.store import Store
from tenure.wire.envelope import Envelope
from tenure.worker.pipeline import MAY_BE_DEPLOYED, reason_of

MAX_READ = 100  # ready jobs that are looked at to find the place of one


def explained(app: Tenure, id: str, *, has_handlers: bool) -> tuple[JobRecord | TickRecord, Explanation] | None:
    """Why this job, or the tick that will have it, is not running; None when neither is known.

    An app that was made of settings alone has no handlers, so that one which is missing tells nothing.
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
    """With the time by the store's clock, which leases and guards go by."""
    guards = app.guards.rules.guards_of(facts.envelope) if facts.envelope else ()
    pause = pause_key(facts.job.queue)
    now, states = store.look([pause, *(guard.key for guard in guards)])
    paused = unpack(states.get(pause))
    return structs.replace(
        facts,
        now=now,
        paused=paused if isinstance(paused, Paused) else None,
        guards=tuple(Guarded(guard, unpack(states.get(guard.key))) for guard in guards),
    )


def opened(app: Tenure, job: JobRecord, *, has_handlers: bool) -> tuple[Envelope | None, Obstacle | None]:
    """The envelope, and what a worker with our handlers and keys would refuse the message for."""
    envelope: Envelope | None = None
    try:
        envelope = app.channel().wire.open(job.body or b"", job.queue, job.id)
        check_version(app.registry.resolve(envelope.job, job.queue), envelope)
    except MAY_BE_DEPLOYED as error:
        if isinstance(error, UnknownHandler) and not has_handlers:
            return envelope, None
        until = _first_due(job, envelope) + round(app.settings.unknown_patience * MICROSECOND)
        return envelope, Obstacle(reason_of(error), str(error), until)
    except (ForbiddenHandler, MessageRejected) as error:
        return envelope, Obstacle(reason_of(error), str(error))
    return envelope, None


def _first_due(job: JobRecord, envelope: Envelope | None) -> int:
    """When it could first start: what was put off since is due later."""
    if job.state != "delayed" or job.fence == 0:
        return job.due_at
    return to_microseconds(envelope.schedule) if envelope and envelope.schedule else job.enqueued_at


def _ahead(app: Tenure, job: JobRecord) -> int | None:
    if job.state != "ready" or app.backend.jobs is None:
        return None
    page, _ = app.backend.jobs.page("ready", job.queue, limit=MAX_READ)
    return next((place for place, each in enumerate(page) if each.id == job.id), MAX_READ)


def _store(app: Tenure) -> Store | None:
    """Where guards are kept, if anywhere."""
    try:
        return app.guards.store()
    except SettingsError:
        return None


def _tick(app: Tenure, id: str) -> TickRecord | None:
    try:
        return app.cron.ledger.known([id]).get(id)
    except SettingsError:
        return None
