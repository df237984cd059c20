"""Figures: what every page shows, read once for all viewers; Recorder keeps them fresh and remembers a few hours.

Counting a million jobs takes a server a tenth of a second. So a request never waits for a count, except the first:
it gets the last figures, and a thread reads new ones in the background. The slower the backend, the rarer it is read.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from heapq import nlargest
from typing import TypeVar

from msgspec import Struct, structs

from tenure.app.tenure import Tenure
from tenure.backends.records import WorkerRecord
from tenure.clock import MICROSECOND, to_datetime
from tenure.errors import BackendError, SettingsError, TenureError
from tenure.events import LIVE_STATES
from tenure.guards.states import Circuit, Paused
from tenure.metrics.queue_signals import QueueSignals

logger = logging.getLogger(__name__)

N = TypeVar("N", int, float)
MIN_AGE_SECONDS = 1.0  # figures that are younger are not read again
IDLE_INTERVAL_SECONDS = 15.0  # between two reads without requests, for the charts
_COST_SHARE = 20  # a read of d seconds is not repeated before 20 d: counting takes at most 5 % of the time
_KEPT_SAMPLES = 4 * 60 * 24  # a day, one every 15 s
_SAMPLED_QUEUES = 100  # of each sample: a thousand queues for a day would take half a gigabyte
_MAX_BREAKERS = 100
_MAX_COUNTED = 10_000  # jobs that wait for one breaker


class QueueFigures(Struct, frozen=True, kw_only=True):
    """One queue: its jobs by state, its age and rates as in QueueSignals, and its pause."""

    name: str
    ready: int = 0
    delayed: int = 0
    parked: int = 0
    leased: int = 0
    dead: int = 0
    oldest_age: float | None = None
    arrival_rate: float | None = None
    service_rate: float | None = None
    seconds_to_drain: float | None = None
    paused_since: datetime | None = None
    pause_reason: str | None = None
    workers: int = 0
    breakers: tuple[str, ...] = ()  # the open ones that its parked jobs wait for

    @property
    def waiting(self) -> int:
        return self.ready + self.delayed + self.parked


class OpenBreaker(Struct, frozen=True, kw_only=True):
    """A breaker that lets no call through until it `probes_at`, and how many jobs of each queue wait for it."""

    name: str
    failures: int
    opened_at: datetime
    probes_at: datetime
    parked: dict[str, int] = {}


class Figures(Struct, frozen=True, kw_only=True):
    """What was read at one time; with an `error`, the backend did not answer, and all else is from before."""

    at: datetime
    queues: tuple[QueueFigures, ...] = ()
    workers: tuple[WorkerRecord, ...] | None = None
    open_breakers: tuple[OpenBreaker, ...] = ()
    error: str | None = None
    error_since: datetime | None = None
    counts_known: bool = True

    def total(self, state: str) -> int:
        return sum(getattr(each, state) for each in self.queues)

    def queue(self, name: str) -> QueueFigures | None:
        return next((each for each in self.queues if each.name == name), None)

    @property
    def paused(self) -> tuple[QueueFigures, ...]:
        return tuple(each for each in self.queues if each.paused_since is not None)


class FigureSample(Struct, frozen=True):
    """The ready jobs and the oldest age of each queue at one time, in UTC microseconds; zeros are missing."""

    at: int
    ready: dict[str, int]
    oldest: dict[str, float]


class Recorder:
    """Reads the figures in a thread of its own, and hands out the last ones."""

    def __init__(self, read: Callable[[], Figures], now: Callable[[], int]) -> None:
        self._read = read
        self._now = now
        self._figures: Figures | None = None
        self._read_at = 0.0
        self._cost = 0.0
        self._wanted = threading.Event()
        self._reading = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._samples: deque[FigureSample] = deque(maxlen=_KEPT_SAMPLES)

    def latest(self) -> Figures:
        """The last figures; the first call reads them, later calls let the thread read newer ones."""
        if self._figures is None:
            with self._reading:
                if self._figures is None:
                    self._refresh()
            self._start()
        elif self._is_due():
            self._wanted.set()
        figures = self._figures
        assert figures is not None, "a refresh always leaves figures"  # noqa: S101 - for the type checker
        return figures

    def read_now(self) -> Figures:
        """Figures from now on, for a page that follows a change."""
        with self._reading:
            self._refresh()
        return self.latest()

    def samples(self) -> list[FigureSample]:
        """What was read so far, the oldest first."""
        return list(self._samples)

    def close(self) -> None:
        self._stopped = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        with self._reading:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="tenure-figures", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            self._wanted.wait(max(IDLE_INTERVAL_SECONDS, self._cost * _COST_SHARE))
            self._wanted.clear()
            if not self._stopped and self._is_due():
                with self._reading:
                    self._refresh()

    def _is_due(self) -> bool:
        return time.monotonic() - self._read_at >= max(MIN_AGE_SECONDS, self._cost * _COST_SHARE)

    def _refresh(self) -> None:
        started = time.monotonic()
        try:
            self._figures = self._read()
        except TenureError as error:
            logger.warning("the figures of the dashboard cannot be read: %s", error)
            self._figures = self._stale(str(error))
        except Exception:  # the thread must go on, and pages must say that the figures are old
            logger.exception("the figures of the dashboard cannot be read")
            self._figures = self._stale("an unexpected error, which is in the log of the dashboard")
        else:
            self._remember(_sample(self._figures, self._now()))
        self._read_at = time.monotonic()
        self._cost = self._read_at - started

    def _remember(self, sample: FigureSample) -> None:
        """Keep a sample for every 15 seconds, and the last one."""
        interval = round(IDLE_INTERVAL_SECONDS * MICROSECOND)
        if len(self._samples) > 1 and self._samples[-1].at - self._samples[-2].at < interval:
            self._samples[-1] = sample
        else:
            self._samples.append(sample)

    def _stale(self, error: str) -> Figures:
        now, last = to_datetime(self._now()), self._figures
        if last is None:
            return Figures(at=now, error=error, error_since=now, counts_known=False)
        return Figures(
            at=last.at,
            queues=last.queues,
            workers=last.workers,
            open_breakers=last.open_breakers,
            error=error,
            error_since=last.error_since or now,
            counts_known=last.counts_known,
        )


def _sample(figures: Figures, now: int) -> FigureSample:
    ready = {each.name: each.ready for each in figures.queues if each.ready}
    oldest = {each.name: each.oldest_age for each in figures.queues if each.oldest_age}
    return FigureSample(now, _largest(ready), _largest(oldest))


def _largest(values: dict[str, N]) -> dict[str, N]:
    if len(values) <= _SAMPLED_QUEUES:
        return values
    return dict(nlargest(_SAMPLED_QUEUES, values.items(), key=lambda pair: pair[1]))


def read_figures(app: Tenure) -> Figures:
    """The figures of an app now."""
    parts = app.parts()
    workers = None if parts.workers is None else parts.workers.alive()
    signals = {} if parts.queues is None else {each.queue: each for each in app.signals()}
    names = _queue_names(app, signals, workers or ())
    try:
        paused, breakers = app.guards.paused(*names), _open_breakers(app)
        workers = None if workers is None else _with_drains(app, workers)
    except (SettingsError, BackendError):  # a broker without a store, or a store that does not answer
        paused, breakers = {}, ()
    return Figures(
        at=to_datetime(app.clock.now()),
        queues=tuple(_queue(name, signals.get(name), paused.get(name), workers or (), breakers) for name in names),
        workers=None if workers is None else tuple(workers),
        open_breakers=breakers,
        counts_known=parts.queues is not None,
    )


def _queue_names(app: Tenure, signals: dict[str, QueueSignals], workers: Sequence[WorkerRecord]) -> list[str]:
    served = [queue for worker in workers for queue in worker.queues]
    lanes = [queue for lane in app.settings.lanes.values() for queue in lane.queues]
    named = map(app.queues.resolve, lanes or app.settings.queues)  # lanes replace the setting `queues`
    return sorted({*signals, *served, *named})


def _open_breakers(app: Tenure) -> tuple[OpenBreaker, ...]:
    found = {
        each.key: (each.state, each.waiting)
        for each in app.guards.search("breaker:", _MAX_BREAKERS)
        if isinstance(each.state, Circuit) and each.state.until > each.now
    }
    parking = app.backend.parking
    waited_for = [key for key, (_, waiting) in found.items() if waiting]
    parked = {} if parking is None else parking.waiters(waited_for, _MAX_COUNTED)
    open_microseconds = round(app.settings.breaker_cooldown * MICROSECOND)
    return tuple(
        OpenBreaker(
            name=key.removeprefix("breaker:"),
            failures=state.failures,
            opened_at=to_datetime(state.until - open_microseconds),
            probes_at=to_datetime(state.until),
            parked=parked.get(key, {}),
        )
        for key, (state, _) in found.items()
    )


def _with_drains(app: Tenure, workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    """The workers as users want them: a worker itself says so only at its next heartbeat."""
    drains = app.guards.draining(*(worker.id for worker in workers))
    return [_with_drain(worker, drains.get(worker.id)) for worker in workers]


def _with_drain(worker: WorkerRecord, drain: Paused | None) -> WorkerRecord:
    since, reason = (drain.since, drain.reason) if drain else (0, None)
    if (worker.draining_since, worker.draining_reason) == (since, reason):
        return worker
    return structs.replace(worker, draining_since=since, draining_reason=reason)


def _queue(
    name: str,
    signals: QueueSignals | None,
    pause: Paused | None,
    workers: Sequence[WorkerRecord],
    breakers: Sequence[OpenBreaker],
) -> QueueFigures:
    counts = {state: 0 if signals is None else getattr(signals, state) for state in (*LIVE_STATES, "dead")}
    return QueueFigures(
        name=name,
        **counts,
        oldest_age=None if signals is None else signals.oldest_age,
        arrival_rate=None if signals is None else signals.arrival_rate,
        service_rate=None if signals is None else signals.service_rate,
        seconds_to_drain=None if signals is None else signals.seconds_to_drain,
        paused_since=None if pause is None else to_datetime(pause.since),
        pause_reason=None if pause is None else pause.reason,
        workers=sum(name in worker.queues for worker in workers),
        breakers=tuple(each.name for each in breakers if name in each.parked),
    )
