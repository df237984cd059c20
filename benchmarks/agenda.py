"""What schedules cost: the same few due among a hundred and among ten thousand."""

import tempfile
import time
from contextlib import closing

from tenure import Tenure
from tenure.clock import MICROSECOND
from tenure.cron.schedule import Schedule
from tenure.cron.scheduler import Agenda
from tenure.definition.job import Job
from tenure.testing import FakeClock

MINUTE = 60 * MICROSECOND
BEGIN = 29_000_000 * MINUTE
DUE = 10


def agenda(jobs: int) -> dict[str, float]:  # noqa: ARG001 - every row has one signature
    """Starting with 10 000 schedules, and a minute in which ten of them are due; then ten of a hundred."""
    many, starting = _agenda(10_000)
    few, _ = _agenda(100)
    return {
        "10000 schedules, start s": starting,
        "10000, µs a minute": _minute(many),
        "100, µs a minute": _minute(few),
    }


def schedules(jobs: int) -> dict[str, float]:  # noqa: ARG001 - every row has one signature
    """A minute of a scheduler on SQLite, ledger and jobs included: ten are due among 10 000, then among a hundred."""
    return {"10000, ms a minute": _beats(10_000), "100, ms a minute": _beats(100)}


def _beats(count: int) -> float:
    minutes, clock = 60, FakeClock()
    with tempfile.TemporaryDirectory() as folder, closing(Tenure(f"sqlite:///{folder}/jobs.db", clock=clock)) as app:

        @app.job
        def noop() -> None: ...

        for number in range(count):
            words = app.schedule("noop").named(str(number))
            words.cron("* * * * *" if number < DUE else f"{number % 60} {number % 24} {number % 28 + 1} 1 *")
        scheduler = app.cron.scheduler(None)
        scheduler.beat()
        begun = time.perf_counter()
        for _ in range(minutes):
            clock.advance(60)
            scheduler.beat()
        spent = time.perf_counter() - begun
        if app.backend.queues.counts()["default"]["ready"] < DUE * minutes:  # type: ignore[attr-defined]
            raise RuntimeError("not everything that was due was enqueued")
        return spent / minutes * 1000


def _agenda(count: int) -> tuple[Agenda, float]:
    """Ten are due every minute, the others once a year."""
    crons = ["* * * * *"] * DUE + [f"{n % 60} {n % 24} {n % 28 + 1} 1 *" for n in range(count - DUE)]
    schedules = [Schedule(name=str(n), job=Job(handler="noop", cron=cron)) for n, cron in enumerate(crons)]
    begun = time.perf_counter()
    made = Agenda(schedules, BEGIN)
    return made, time.perf_counter() - begun


def _minute(made: Agenda) -> float:
    count = 500
    begun = time.perf_counter()
    for minute in range(1, count + 1):
        due, _ = made.take(BEGIN + minute * MINUTE)
        if len(due) < DUE:
            raise RuntimeError(f"{len(due)} were due in minute {minute}, not {DUE}")
    return (time.perf_counter() - begun) / count * 1_000_000
