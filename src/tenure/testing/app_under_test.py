"""AppUnderTest: an app on memory and a clock that the test moves; the pytest fixture `tenure` is one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, Self

from tenure.backends.ledger import Ledger
from tenure.clock import MICROSECOND
from tenure.cron.builder import Schedules
from tenure.cron.loop import InlineTickRunner
from tenure.cron.schedule import Schedule
from tenure.definition.duration import Duration, to_seconds
from tenure.definition.job_function import JobFunction
from tenure.errors import JobFailed
from tenure.events import Status
from tenure.testing.clock import FakeClock
from tenure.testing.job_runner import FailedJob, HandlerRun, JobRunner, ManagedApp
from tenure.testing.jobs import EnqueuedJob, enqueued, holds, key_of

AnyHandler = str | JobFunction[..., Any]
_WAKE_LIMIT = 1000


class OverridableApp(ManagedApp, Protocol):
    """The part of a Tenure app that a test uses."""

    @property
    def schedules(self) -> Schedules: ...

    @property
    def cron(self) -> Any: ...

    def worker(self, *queues: str, burst: bool = False) -> Any: ...

    def override(self, url: str | None = None, *, clock: Any = None) -> AbstractContextManager[Any]: ...


class AppUnderTest:
    """`with AppUnderTest(app) as tenure:` lets the app work in memory, with a clock of its own, until the block ends.

    Everything happens in the thread of the test, and only when the test calls `run_due` or `advance`.
    """

    def __init__(self, app: OverridableApp, clock: FakeClock | None = None) -> None:
        self._overridable = app
        self._override: AbstractContextManager[Any] | None = None
        self._runner = JobRunner(app)
        self.app: Any = app
        self.clock = clock or FakeClock()

    def __enter__(self) -> Self:
        self._override = self._overridable.override("memory://", clock=self.clock)
        self._override.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        override, self._override = self._override, None
        if override is not None:
            override.__exit__(*exc_info)

    def enqueued(self, handler: AnyHandler | None = None, /, **arguments: Any) -> list[EnqueuedJob]:
        """The jobs that wait, ready or delayed: all, or those of a handler whose payload contains these arguments."""
        return [job for job in enqueued(self.app, handler) if holds(job, arguments)]

    def run_due(self, *queues: str, raising: bool = True) -> Counter[Status]:
        """Run every ready job, on these queues or on all, and the jobs that those enqueue; returns a count by status.

        JobFailed is raised at the end if an attempt failed, even if it will be retried; `raising=False` prevents that.
        """
        __tracebackhide__ = True
        with self._counted(raising) as tally:
            self._settle_down(queues)
        return tally

    def advance(self, by: Duration, *, raising: bool = True) -> Counter[Status]:
        """Move the clock, as `"10m"` or in seconds, and run what becomes due on the way, each thing at its time.

        That are delayed jobs, retries, jobs that wait for a guard, and the ticks of schedules.
        """
        __tracebackhide__ = True
        target = self.clock.now() + round(to_seconds(by, "the time to advance by") * MICROSECOND)
        with self._counted(raising) as tally:
            ticks = Ticking(self._overridable, self.clock.now())
            self._settle_down((), ticks)
            while self.clock.now() < target:
                moment = min([target, *self._moments(ticks)])
                self.clock.advance((moment - self.clock.now()) / MICROSECOND)
                self._settle_down((), ticks)
        return tally

    def runs(self, handler: AnyHandler | None = None) -> list[HandlerRun]:
        """What ran so far, in the order in which the runs ended."""
        return [run for run in self._runner.runs if handler is None or run.handler == key_of(handler)]

    def crash_after(self, handler: AnyHandler, times: int = 1) -> None:
        """Let the next run of a handler reach its end, and its process die before the job is settled.

        The job runs again, as after a real crash: it counts a crash and no attempt, and past `max_crashes` the job is
        dead.
        """
        self._runner.inject("crash", key_of(handler), times)

    def duplicate(self, handler: AnyHandler, times: int = 1) -> None:
        """Deliver the next job of a handler twice: the first run ends too late to be settled, and the job runs again.

        The second run has a higher fence. Nothing is counted as a failure.
        """
        self._runner.inject("duplicate", key_of(handler), times)

    def lose_lease(self, handler: AnyHandler, times: int = 1) -> None:
        """Let the next run of a handler lose its lease, and another worker run the job meanwhile.

        The other run, with the higher fence, ends first. Then the stale run does its work; its end is refused.
        """
        self._runner.inject("lost lease", key_of(handler), times)

    def _settle_down(self, queues: Sequence[str], ticks: "Ticking | None" = None) -> None:
        """Run until nothing more can run at the present time."""
        before = None
        while before != (before := self._progress(ticks)):
            self.app.manager().reset_stuck(queues)
            self.app.backend.parking.wake(None, _WAKE_LIMIT)
            if ticks is not None:
                ticks.run_due()
            recorders = self.app.cron.companions()
            try:
                self._runner.run_ready(queues)
            finally:
                for recorder in recorders:  # they note how the jobs of ticks ended, and enqueue what depends on them
                    recorder.stop()
                    recorder.run()

    def _progress(self, ticks: "Ticking | None") -> tuple[int, int, int]:
        runner = self._runner
        return len(runner.runs), runner.tally.total(), 0 if ticks is None else ticks.ran

    def _moments(self, ticks: "Ticking") -> Iterator[int]:
        """When something becomes due, after now."""
        now = self.clock.now()
        for record in self.app.backend.jobs.waiting():
            if record.due_at > now:
                yield record.due_at
        for seconds in self.app.backend.parking.wake(None, _WAKE_LIMIT).values():
            yield now + max(1, round(seconds * MICROSECOND))
        yield from ticks.moments(now)

    @contextmanager
    def _counted(self, raising: bool) -> Iterator[Counter[Status]]:
        """Count the statuses of the jobs that settle inside the block; raise at its end if an attempt failed."""
        __tracebackhide__ = True
        runner = self._runner
        runner.tally, runner.failed = Counter(), {}
        self.app.listeners.add(runner)
        try:
            yield runner.tally
        finally:
            self.app.listeners.remove(runner)
        if raising and runner.failed:
            raise JobFailed(self._failure_text(list(runner.failed.values())))

    def _failure_text(self, failed: Sequence[FailedJob]) -> str:
        first = failed[0]
        record = self.app.parts().find(first.id)
        name = first.id if record is None else f"{first.id} ({record.handler!r})"
        text = f"job {name} failed: {first.why}"
        if record is not None and record.failures:
            failure = record.failures[-1]
            text = f"job {name} failed: {failure.type}: {failure.message}\n{failure.trace or ''}"
        others = f"{len(failed) - 1} more failed too. " if len(failed) > 1 else ""
        return f"{text}\n{others}With raising=False a test lets jobs fail."


class Ticking:
    """A scheduler that a test drives; it begins with the ticks after `since`."""

    def __init__(self, app: OverridableApp, since: int) -> None:
        self._schedules: Sequence[Schedule] = app.schedules.all()
        self._since = since
        self._inline: list[tuple[Schedule, int]] = []
        self.ran = 0
        if self._schedules:
            ledger: Ledger = app.cron.ledger
            self._runner = InlineTickRunner(app.cron.publisher(ledger))
            self._scheduler = app.cron.scheduler(lambda schedule, tick: self._inline.append((schedule, tick)))

    def run_due(self) -> None:
        """Enter the ticks that are due, and run those that are inline."""
        if not self._schedules:
            return
        self.ran += len(self._scheduler.catch_up(self._since))
        self._scheduler.follow_up()
        while self._inline:
            self._runner.perform(*self._inline.pop(0))
            self.ran += 1

    def moments(self, now: int) -> Iterator[int]:
        """When the next tick of each schedule is due; a tick with jitter may be due after its own time."""
        for schedule in self._schedules:
            for tick in (schedule.before(now + 1), schedule.after(now)):
                if tick is not None and (due := schedule.due_at(tick)) > now:
                    yield due
                    break
