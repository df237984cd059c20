"""A day of the shop, told with the verbs of the backend: what ran, failed, waits and runs, and who did what.

`fill(app, clock)` works on every backend, moves the clock by a day, and leaves the same data each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from msgspec import structs

from tenure import Tenure
from tenure.backends.messages import Abandon, Ack, Lease, Nack, Park, Verdict
from tenure.clock import MICROSECOND, to_datetime
from tenure.definition.context import Progress
from tenure.definition.job import Job
from tenure.events import Run
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder, breaker_key
from tenure.testing import FakeClock
from tenure.worker.archive_writer import record_of

from .failures import failure_of
from .fleet import WORKERS, announce
from .jobs import QUEUES
from .orders import Orders
from .records import save_audit, save_statistics
from .ticks import Ticks

HOURS = 24
LEASE_SECONDS = 6 * 3600.0
IMPORTS_PAUSED = -52 * 60.0  # seconds before the end of the day
PAYMENTS_AWAY = -26 * 60.0
BREAKER_OPEN = -14 * 60.0
READY = {"resize_image": 212, "send_receipt": 31, "send_welcome": 9, "deliver_webhook": 57, "render_invoice": 6}
RETRY_DELAYS = (20.0, 40.0, 80.0, 160.0)


def fill(app: Tenure, clock: FakeClock, watch: Callable[[], object] | None = None) -> None:
    """Fill an empty backend with a day that ends when the clock has moved by 24 hours.

    `watch` is called every minute of the last hour, as somebody would look who measures.
    """
    ShopDay(app, clock).play(watch)


class ShopDay:
    """Plays the day in the order of time."""

    def __init__(self, app: Tenure, clock: FakeClock) -> None:
        self._app = app
        self._clock = clock
        self._end = clock.now() + HOURS * 3600 * MICROSECOND
        self._random = Random(20261115)
        self._orders = Orders(app, self._random)
        self._ticks = Ticks(app, clock)
        self._running: list[Lease] = []
        self._is_broker = app.parts().archive is not None

    def play(self, watch: Callable[[], object] | None = None) -> None:
        events: list[tuple[float, Callable[[], object]]] = [
            *self._history(),
            *self._ticks.events(self._end, self._run_tick),
            (-56 * 60, self._start_import),
            (IMPORTS_PAUSED, self._pause_imports),
            (BREAKER_OPEN, self._open_breaker),
            *((-60.0 * minutes, self._enqueue_import) for minutes in range(50, 5, -3)),
            (-13 * 60, self._cancel_some),
            (-9 * 60, self._expire_some),
            (-271, self._start_report),
            (-170, lambda: self._run_all(QUEUES_SERVED)),
            (-140, self._start_jobs),
            (-90, self._enqueue_ready),
            (-10 * 60, self._enqueue_delayed),
            (-13, self._fail_webhooks),
            *((offset, self._run_urgent) for offset in (-61, -47, -39, -31, -24, -18, -11, -6)),
            *((offset, self._enqueue_mixed) for offset in (-58, -43, -34, -27, -21, -14, -8, -2)),
        ]
        if watch is not None:
            events += [(60.0 * minute, watch) for minute in range(-60, 0)]
        for offset, event in sorted(events, key=lambda each: each[0]):
            self._move(offset)
            event()
        self._move(0)
        save_statistics(self._app, self._end)
        save_audit(self._app, self._end)
        announce(self._app, self._end, self._running)
        self._hold_guards()
        self._ticks.pause("stock-import")

    def _move(self, offset: float) -> None:
        """Let the clock show a time before the end of the day."""
        self._clock.advance(max(0, (self._end - self._clock.now()) / MICROSECOND + offset))

    # What ran

    def _history(self) -> list[tuple[float, Callable[[], None]]]:
        """Every five minutes some jobs, and every 40 seconds one job in the last hour."""
        older = [(float(at), 3) for at in range(-HOURS * 3600, -3600, 300)]
        newer = [(float(at), 1) for at in range(-3600, -180, 40)]
        return [(at, lambda at=at, count=count: self._run_some(at, count)) for at, count in [*older, *newer]]

    def _run_some(self, at: float, count: int) -> None:
        self._app.enqueue_many(self._jobs(at, count))
        self._clock.advance(self._random.uniform(0.02, 2.5))
        self._run_all(QUEUES if at < IMPORTS_PAUSED - 300 else QUEUES_SERVED)

    def _jobs(self, at: float, count: int) -> list[Job]:
        """Jobs as they come all day; while the payment gateway is away, more orders wait to be charged."""
        now = self._clock.now()
        charges = 2 if PAYMENTS_AWAY <= at < BREAKER_OPEN else at >= BREAKER_OPEN
        return [
            *(self._orders.any(now) for _ in range(count)),
            *(self._orders.make(now, "charge_order") for _ in range(charges)),
        ]

    def _run_all(self, queues: Sequence[str]) -> None:
        leases = self._app.backend.lease(queues, limit=100, seconds=LEASE_SECONDS)
        if leases:
            seconds = [self._orders.seconds(lease.id) for lease in leases]
            self._clock.advance(max(seconds))
            self._settle([self._verdict(lease, spent) for lease, spent in zip(leases, seconds, strict=True)])

    def _verdict(self, lease: Lease, seconds: float) -> Verdict:
        order = self._orders.known[lease.id]
        now, handler = self._clock.now(), order.job.handler
        offset = (now - self._end) / MICROSECOND
        if handler == "charge_order" and offset >= BREAKER_OPEN:
            return self._parked(lease)
        worker = WORKERS[lease.queue]
        run = Run(
            handler=handler,
            started=now - round(seconds * MICROSECOND),
            seconds=seconds,
            wait=max(0.0, (now - lease.due) / MICROSECOND - seconds) if not lease.attempts else None,
            cpu=seconds * 0.4,
            memory=60_000_000 + order.number % 50 * 1_000_000,
            worker=worker,
            is_json=order.result is not None,
            size=len(lease.body),
        )
        if not order.fails(lease.attempts, offset):
            return Ack(lease=lease, seconds=seconds, output=order.result, run=run)
        failure = failure_of(handler, order.number, now, lease.attempts + 1)
        failure = structs.replace(failure, worker=worker, run=run)
        if lease.attempts >= order.job.max_retries:
            return Abandon(lease=lease, reason="retries_exhausted", charge="attempt", failure=failure, run=run)
        delay = 0.0 if self._is_broker else RETRY_DELAYS[min(lease.attempts, 3)]
        return Nack(lease=lease, delay=delay, charge="attempt", failure=failure, reason="failed", run=run)

    def _parked(self, lease: Lease) -> Verdict:
        if self._app.backend.parking is None:
            return Nack(lease=lease, delay=900.0, reason="circuit_open", inconclusive=True)
        return Park(lease=lease, key=breaker_key("payments"), reason="circuit_open")

    def _settle(self, verdicts: Iterable[Verdict]) -> None:
        given = list(verdicts)
        backend, parts = self._app.backend, self._app.parts()
        backend.ack([each for each in given if isinstance(each, Ack)])
        backend.nack([each for each in given if isinstance(each, Nack)])
        backend.abandon([each for each in given if isinstance(each, Abandon)])
        if backend.parking is not None:
            backend.parking.park([each for each in given if isinstance(each, Park)])
        if parts.archive is not None:
            parts.archive.save([record for each in given if (record := record_of(each, self._clock.now()))])

    def _run_tick(self, job: Job, fails: bool) -> None:
        """Enqueue the job of a tick; a worker takes it with the next jobs."""
        self._app.enqueue(job)
        self._orders.add(job, fails=fails)
        if job.queue != "imports" or self._offset < IMPORTS_PAUSED:
            self._run_all([job.queue])

    @property
    def _offset(self) -> float:
        return (self._clock.now() - self._end) / MICROSECOND

    # What runs and waits now

    def _start(self, jobs: Sequence[Job]) -> None:
        """Enqueue jobs and lease them; nothing else is ready in their queues then."""
        self._app.enqueue_many(jobs)
        self._clock.advance(0.3)
        for queue in dict.fromkeys(job.queue for job in jobs):
            count = sum(job.queue == queue for job in jobs)
            self._running += self._app.backend.lease([queue], limit=count, seconds=LEASE_SECONDS)

    def _start_import(self) -> None:
        self._run_all(QUEUES)
        self._start([self._orders.make(self._clock.now(), "import_products", name="northwind, autumn catalogue")])

    def _pause_imports(self) -> None:
        self._app.guards.pause("imports", "supplier sends a broken file, ask the catalogue team before you resume")

    def _enqueue_import(self) -> None:
        self._app.enqueue(self._orders.make(self._clock.now(), "import_products"))

    def _start_report(self) -> None:
        self._run_all(QUEUES_SERVED)
        self._start([self._orders.make(self._clock.now(), "nightly_report", name="nightly-report, again")])

    def _start_jobs(self) -> None:
        now = self._clock.now()
        handlers = ("resize_image",) * 4 + ("send_receipt", "deliver_webhook", "deliver_webhook", "render_invoice")
        self._start([self._orders.make(now, handler) for handler in handlers])

    def _enqueue_ready(self) -> None:
        now = self._clock.now()
        self._app.enqueue_many(
            [self._orders.make(now, handler) for handler, count in READY.items() for _ in range(count)]
        )

    def _run_urgent(self) -> None:
        """A job that goes before those that wait: it has ended, or waits for the breaker."""
        handler = self._random.choice(("send_receipt", "deliver_webhook", "charge_order", "render_invoice"))
        job = self._orders.make(self._clock.now(), handler, priority=9)
        self._app.enqueue(job)
        leases = self._app.backend.lease([job.queue], limit=1, seconds=LEASE_SECONDS)
        self._clock.advance(0.4)
        self._settle([self._verdict(lease, 0.4) for lease in leases])

    def _enqueue_mixed(self) -> None:
        now = self._clock.now()
        count = self._random.randint(1, 3)
        self._app.enqueue_many([self._orders.make(now, self._random.choice(tuple(READY))) for _ in range(count)])

    def _enqueue_delayed(self) -> None:
        now = self._clock.now()
        digests = [self._orders.make(now, "send_digest", delay=3600.0 * hours) for hours in (2, 6, 15, 18)]
        reminders = [self._orders.make(now, "send_welcome", delay=600.0 * n) for n in range(1, 25)]
        self._app.enqueue_many([*digests, *reminders])

    def _fail_webhooks(self) -> None:
        """Deliveries that failed once or more wait for their next attempt."""
        if self._is_broker:
            return
        jobs = [self._orders.make(self._clock.now(), "deliver_webhook", priority=9, fails=True) for _ in range(5)]
        self._app.enqueue_many(jobs)
        leases = self._app.backend.lease(["webhooks"], limit=len(jobs), seconds=LEASE_SECONDS)
        self._clock.advance(5)
        self._settle([self._verdict(lease, 5.0) for lease in leases])

    def _cancel_some(self) -> None:
        jobs = [self._orders.make(self._clock.now(), "send_welcome", delay=1200.0) for _ in range(4)]
        ids = [str(handle) for handle in self._app.enqueue_many(jobs)]
        self._clock.advance(30)
        if self._app.parts().control is not None:
            self._app.jobs.cancel(ids)

    def _expire_some(self) -> None:
        now = self._clock.now()
        jobs = [self._orders.make(now, "send_digest", expires_at=to_datetime(now + 5 * MICROSECOND)) for _ in range(2)]
        self._app.enqueue_many(jobs)
        self._clock.advance(8)
        leases = self._app.backend.lease(["emails"], limit=2, seconds=LEASE_SECONDS)
        until = to_datetime(now + 5 * MICROSECOND).isoformat()
        self._settle([Ack(lease=lease, state="expired", reason=f"expired at {until}") for lease in leases])

    def _open_breaker(self) -> None:
        breaker = self._app.guards.breaker("payments")
        for _ in range(self._app.settings.breaker_threshold):
            try:
                with breaker.closed():
                    raise ConnectionError("payments.example does not answer")
            except ConnectionError:
                continue

    def _hold_guards(self) -> None:
        """What the running jobs hold, some used tokens, a key that was used, and the progress of running jobs."""
        app, control = self._app, self._app.parts().control
        shares = iter((0.62, 0.35, 0.8, 0.11, 0.47))
        for lease in self._running:
            job = self._orders.known[lease.id].job
            holder = Holder(lease.id, lease.fence, LEASE_SECONDS)
            guards = app.guards.rules.guards_of(app.open_backend().wire.open(lease.body, lease.queue))
            if job.single_instance and guards:
                app.guards.store().change([take_guards(guards, holder)])
            if control is not None and job.handler in ("import_products", "nightly_report", "resize_image"):
                control.save_progress([(lease, Progress(round(next(shares, 0.5) * 18_400), 18_400))])
        for _ in range(12):
            app.guards.queue("webhooks").allow()


QUEUES_SERVED = tuple(queue for queue in QUEUES if queue != "imports")
