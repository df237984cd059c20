"""Collects the facts for the doctor from the backend, the store and the app; it reads a bounded number of rows.

Only for the size of the payloads of ended jobs the backend reads its index of all of them.
"""

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from urllib.parse import parse_qs, urlsplit

from msgspec import structs

from tenure.app.doctor.facts import (
    Deaths,
    DoctorFacts,
    Keys,
    OutboxFacts,
    Sample,
    ScheduleFacts,
    Timing,
    UnrunnableJob,
)
from tenure.app.explain.collect import opened
from tenure.app.tenure import Tenure
from tenure.backends.job_filter import all_heads
from tenure.backends.ledger import ALL_SCHEDULES, Ledger
from tenure.backends.parts import Jobs
from tenure.backends.records import Fact, JobRecord, WorkerRecord
from tenure.backends.url import shown_url
from tenure.clock import MICROSECOND
from tenure.cron.decision import reason_to_skip
from tenure.errors import SettingsError, TenureError, UntrustedKeyFile
from tenure.wire.signing import kid_of

MAX_HEADS = 10_000  # messages whose key is read: a fifth of a second on SQLite
SAMPLE_SIZE = 200  # waiting jobs that are opened
_LATE_TICK = 120 * MICROSECOND  # no scheduler has seen a tick that is not in the ledger by then
_CLOCK_READS = 3  # the quickest counts: a slow answer does not tell when the server read its clock
_HOUR, _DAY = 3600.0, 86_400.0


def collect_facts(app: Tenure, *, has_handlers: bool) -> DoctorFacts:
    """All facts; only the failure if the backend cannot be opened."""
    settings = app.settings
    timing = Timing(
        lease=settings.lease, stop_grace=settings.stop_grace, default_timeout=settings.default_timeout or None
    )
    facts = DoctorFacts(
        place=shown_url(settings.url),
        timing=timing,
        is_overridden=settings.is_overridden,
        environment=settings.environment,
    )
    try:
        return _from_backend(app, facts, has_handlers)
    except UntrustedKeyFile as error:
        return structs.replace(facts, key_file_fault=str(error))
    except TenureError as error:
        return structs.replace(facts, failure=str(error))


def _from_backend(app: Tenure, facts: DoctorFacts, has_handlers: bool) -> DoctorFacts:
    backend = app.backend
    skew, ahead = _clocks(app)
    return structs.replace(
        facts,
        timing=structs.replace(facts.timing, runs=_runs(app)),
        schema=None if backend.schema is None else backend.schema.version(),
        steps_taken=() if backend.schema is None else tuple(backend.schema.steps_taken),
        missing_indexes=None if backend.schema is None else tuple(backend.schema.missing_indexes()),
        server=tuple(_file_facts(app) if backend.server is None else backend.server.facts()),
        sqlite=None if backend.file is None else backend.file.sqlite_version,
        skew=skew,
        ahead=ahead,
        keys=_keys(app),
        key_file=None if backend.file is None or app.settings.keys else str(backend.file.key_path),
        sample=_sample(app) if has_handlers else None,
        unserved=_unserved(app),
        undeployed=_undeployed(app),
        schedules=_schedules(app) if has_handlers else None,
        deaths=_deaths(app),
        kept_payloads=None if backend.payloads is None else backend.payloads.kept(),
        payload_bytes=app.settings.retention.payload_bytes,
        outboxes=tuple(map(partial(_outbox, app), app.settings.outboxes)),
    )


def _outbox(app: Tenure, url: str) -> OutboxFacts:
    try:
        found = [depth for _, depth in app.outboxes.on(url).depths()]
    except TenureError as error:
        return OutboxFacts(name=shown_url(url), failure=str(error))
    return OutboxFacts(
        name=shown_url(url),
        jobs=sum(each.jobs for each in found),
        refused=sum(each.refused for each in found),
        untried_age=max(each.untried_age for each in found),
    )


def _file_facts(app: Tenure) -> list[Fact]:
    """The durability of a SQLite file, which its URL decides."""
    parts = urlsplit(app.settings.url)
    if parts.scheme != "sqlite":
        return []
    (synchronous,) = parse_qs(parts.query).get("synchronous", ["full"])
    loses = synchronous == "normal"
    promise = "a power cut may cost the last jobs" if loses else "a job is on disk before enqueue returns"
    return [Fact("durability", f"{promise} (synchronous={synchronous})", warning=loses)]


def _clocks(app: Tenure) -> tuple[float | None, dict[str, float]]:
    """How many seconds the server's clock is ahead of ours, and each worker's clock ahead of the server's."""
    ledger = _ledger(app)
    if ledger is None:
        return None, {}
    skew = min((_measured_skew(ledger) for _ in range(_CLOCK_READS)), key=itemgetter(0))[1]
    registry = app.parts().workers
    workers = [] if registry is None else registry.alive()
    server = ledger.time()
    return skew, {each.id: (each.seen_at - server) / MICROSECOND for each in workers}


def _measured_skew(ledger: Ledger) -> tuple[float, float]:
    """How long the server took to answer, and how many seconds its clock is ahead of ours, wrong by half of that."""
    before = time.time()
    theirs = ledger.time()
    after = time.time()
    return after - before, theirs / MICROSECOND - (before + after) / 2


def _keys(app: Tenure) -> Keys:
    ring = app.open_backend().wire.ring
    keys = Keys(ring=tuple(ring.kids), verify=app.settings.verify)
    if app.backend.control is None:
        return keys
    heads = all_heads(app.backend.control)
    sealed = Counter(map(kid_of, islice(heads, MAX_HEADS)))
    return structs.replace(keys, sealed=dict(sealed), whole=next(heads, None) is None)


def _sample(app: Tenure) -> Sample | None:
    jobs = app.backend.jobs
    if jobs is None:
        return None
    unrunnable, seen = [], 0
    for job in islice(_waiting(jobs), SAMPLE_SIZE):
        record = jobs.find(job.id)
        if record is None or record.body is None:
            continue  # it has ended meanwhile
        seen += 1
        _, obstacle = opened(app, record, has_handlers=True)
        if obstacle is not None:
            unrunnable.append(UnrunnableJob(job.id, job.handler, obstacle.code))
    return Sample(seen, tuple(unrunnable))


def _waiting(jobs: Jobs) -> Iterator[JobRecord]:
    """The first jobs of each queue and state, so that one long queue does not hide the others."""
    for state in ("ready", "delayed", "parked"):
        for queue in jobs.queues_with(state):
            yield from jobs.page(state, queue, limit=SAMPLE_SIZE // 4)[0]


def _unserved(app: Tenure) -> dict[str, int] | None:
    """How many ready jobs each queue has that no worker takes; one that drains takes none."""
    parts = app.parts()
    if parts.queues is None or parts.workers is None:
        return None
    served = {queue for worker in parts.workers.alive() if not worker.draining_since for queue in worker.queues}
    counts = parts.queues.counts(ended=False)
    return {queue: counts[queue]["ready"] for queue in counts if counts[queue]["ready"] and queue not in served}


def _undeployed(app: Tenure) -> dict[str, int]:
    """Handlers of waiting jobs that no worker on their queue has; older workers do not report their handlers."""
    jobs, workers = app.backend.jobs, app.parts().workers
    if jobs is None or workers is None:
        return {}
    serving: dict[str, list[WorkerRecord]] = {}
    for worker in workers.alive():
        for queue in worker.queues:
            serving.setdefault(queue, []).append(worker)
    return dict(
        Counter(
            job.handler
            for job in islice(_waiting(jobs), SAMPLE_SIZE)
            if job.queue in serving
            and all(each.handlers and job.handler not in each.handlers for each in serving[job.queue])
        )
    )


def _schedules(app: Tenure) -> tuple[ScheduleFacts, ...] | None:
    ledger = _ledger(app)
    known = app.schedules.all() if ledger else ()
    if ledger is None or not known:
        return None
    paused, last, now = ledger.paused(), ledger.last_ticks(), ledger.time()
    if ALL_SCHEDULES in paused:
        return None
    active = [
        schedule
        for schedule in known
        if schedule.name not in paused and reason_to_skip(schedule, app.settings.environment) is None
    ]
    found = [
        ScheduleFacts(each.name, each.before(now - _LATE_TICK - round(each.jitter * MICROSECOND)), last.get(each.name))
        for each in active
    ]
    return tuple(found) or None


def _deaths(app: Tenure) -> Deaths | None:
    parts = app.parts()
    if parts.stats is None:
        return None
    counts = None if parts.queues is None else parts.queues.counts(ended=False)
    letters = None if counts is None else sum(states["dead"] for states in counts.values())
    hour, day = (sum(each.dead for each in app.statistics(seconds)) for seconds in (_HOUR, _DAY))
    return Deaths(letters=letters, hour=hour, day=day)


def _runs(app: Tenure) -> dict[str, float]:
    if app.parts().stats is None:
        return {}
    return {each.name: each.run.p99 for each in app.statistics(_DAY, "handler") if each.run.p99 is not None}


def _ledger(app: Tenure) -> Ledger | None:
    try:
        return app.cron.ledger
    except SettingsError:
        return None
