"""A backend in which every text that a job, a worker, a guard, a schedule or a user can carry is hostile HTML."""

from collections.abc import Sequence
from typing import Any

from tenure import Tenure
from tenure.backends.ledger import Note, TickRecord, TickState
from tenure.backends.messages import Abandon, Ack, Lease, Message, Nack, Park
from tenure.backends.records import AuditRecord, LaneRecord, WorkerRecord
from tenure.clock import MICROSECOND
from tenure.cron.schedule import tick_id
from tenure.definition.context import Progress
from tenure.definition.failure import Failure
from tenure.events import Run
from tenure.guards.states import breaker_key
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, Tally
from tenure.testing import FakeClock

HTML = "\"'><img src=x onerror=alert(1)></script><script>alert(2)//"
QUEUE = "hostile"
AUDIT_ID = "019a8700-0000-7000-8000-000000000001"
_LEASE_SECONDS = 3600.0
_TRACE = f"""Traceback (most recent call last):
  File "{HTML}", line 1, in {HTML}
    {HTML}
{HTML}: {HTML}
"""


def hostile_app(url: str, clock: FakeClock) -> Tenure:
    app = Tenure(url, clock=clock, breaker_threshold=1, breaker_cooldown=3600)

    class Greet:
        """Takes any payload, and never runs."""

        def handle(self, payload: Any) -> None: ...

    app.register("greet", Greet, queue=QUEUE)
    app.schedule("greet").named(HTML).every("1h")
    return app


def fill_hostile(app: Tenure, clock: FakeClock) -> list[str]:
    """Fill an empty backend; the ids of its jobs, one in each state and two with hostile ids."""
    ids = [_put(app) for _ in range(8)]
    by_id = {lease.id: lease for lease in app.backend.lease([QUEUE], limit=6, seconds=_LEASE_SECONDS)}
    _settle(app, clock, [by_id[id] for id in ids[:6]])
    assert app.backend.control is not None
    app.backend.control.cancel([ids[6]])
    _put_foreign(app)
    _keep_guards(app)
    _keep_ticks(app, clock)
    _keep_records(app, clock, ids[5])
    return [*ids, HTML, f"{HTML}2"]


def _put(app: Tenure) -> str:
    payload = {HTML: HTML, "nested": {HTML: [HTML, {HTML: HTML}]}}
    job = app.define("greet", payload).named(HTML).tags(HTML).meta(**{HTML: HTML}).key(HTML).build()
    follower = app.define("greet", {HTML: HTML}).named(HTML).build()
    return str(app.enqueue(job.replace(breaker=HTML, idempotency_key=None, then=follower, chain=[follower])))


def _settle(app: Tenure, clock: FakeClock, leases: Sequence[Lease]) -> None:
    """One ends well, one dies, one expires, one waits for its next attempt, one waits for a guard, one runs."""
    done, dead, expired, failed, parked, running = leases
    now = clock.now()
    run = Run(handler=HTML, started=now, seconds=1.0, wait=1.0, worker=HTML, is_json=True)
    failure = Failure(HTML, HTML, now, 1, HTML, _TRACE, HTML, run)
    backend = app.backend
    backend.ack([Ack(lease=done, output=f'{{"{_json(HTML)}": ["{_json(HTML)}"]}}', run=run)])
    backend.ack([Ack(lease=expired, state="expired", reason=HTML)])
    backend.abandon([Abandon(lease=dead, reason=HTML, charge="attempt", failure=failure, run=run)])
    backend.nack([Nack(lease=failed, delay=600, charge="attempt", failure=failure, reason=HTML, run=run)])
    _open_breaker(app)
    assert backend.parking is not None
    assert backend.control is not None
    backend.parking.park([Park(lease=parked, key=breaker_key(HTML), reason=HTML)])
    backend.control.save_progress([(running, Progress(1, 3))])


def _json(text: str) -> str:
    return text.replace('"', '\\"')


def _open_breaker(app: Tenure) -> None:
    try:
        with app.guards.breaker(HTML).closed():
            raise ConnectionError(HTML)
    except ConnectionError:
        return


def _put_foreign(app: Tenure) -> None:
    """What any program that can write to the backend can put: names that Tenure itself refuses."""
    for id in (HTML, f"{HTML}2"):
        app.backend.put([Message(id=id, queue=HTML, handler=HTML, name=HTML, body=b"{}", tags=(HTML,))])
    leases = app.backend.lease([HTML], limit=1, seconds=_LEASE_SECONDS)
    app.backend.abandon([Abandon(lease=lease, reason=HTML) for lease in leases])


def _keep_guards(app: Tenure) -> None:
    app.guards.pause(QUEUE, HTML)
    app.guards.pause(HTML, HTML)
    app.guards.rate("1/min", key=HTML).allow()


def _keep_ticks(app: Tenure, clock: FakeClock) -> None:
    ledger, now = app.cron.ledger, clock.now()
    ends: tuple[TickState, ...] = ("skipped", "failed", "succeeded", "enqueued")
    for hours, state in enumerate(ends, 1):
        tick = now // (3600 * MICROSECOND) * 3600 * MICROSECOND - hours * 3600 * MICROSECOND
        id = tick_id(HTML, tick)
        ledger.enter([TickRecord(id=id, schedule=HTML, tick=tick, due=tick, state="intended")])
        ledger.note([Note(id, state, HTML)])
    ledger.pause(HTML)


def _keep_records(app: Tenure, clock: FakeClock, running: str) -> None:
    parts, now = app.parts(), clock.now()
    assert parts.workers is not None
    assert parts.stats is not None
    assert parts.audit is not None
    lane = LaneRecord(name=HTML, queues=(QUEUE, HTML), runner=HTML, concurrency=2)
    worker = WorkerRecord(
        id=HTML, host=HTML, pid=1, queues=(QUEUE, HTML), runner=HTML, concurrency=2, started_at=now, seen_at=now,
        jobs=(running,), counts={HTML: 1}, lanes=(lane,), rates={HTML: 1.0}, handlers=(HTML,), kids=(HTML,),
        draining_since=now, draining_reason=HTML,
    )  # fmt: skip
    parts.workers.announce(worker, 3600)
    counts = Counts(statuses={"acked": 5, "dead-lettered": 5}, failed=5)
    counts.runs.add(1.0)
    parts.stats.save([Tally(now // SLOT_MICROSECONDS * SLOT_MICROSECONDS, HTML, HTML, HTML, counts)])
    parts.audit.save(
        AuditRecord(
            id=AUDIT_ID,
            at=now,
            actor=HTML,
            action="jobs.cancel",
            target=HTML,
            why=HTML,
            origin=HTML,
            state="failed",
            counts={HTML: 1},
            error=HTML,
        )
    )
