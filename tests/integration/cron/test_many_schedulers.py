"""Ten schedulers with wrong clocks, killed and restarted at random: each due tick is enqueued exactly once.

The short form walks through an hour of simulated minutes; `make ticks` (TICKS=day) through a day.
"""

import os
import random
import signal
import time
from collections import Counter
from contextlib import closing, suppress
from itertools import count
from typing import Self

import pytest

from tenure import Tenure
from tenure.backends.ledger import Note, TickRecord
from tenure.backends.messages import Ack
from tenure.cron.schedule import tick_id
from tenure.errors import BackendError

MINUTE = 60_000_000
BEGIN = 29_000_000 * MINUTE
MINUTES = 1440 if os.environ.get("TICKS") == "day" else 60
SPEED = 600  # simulated seconds a second
SCHEDULERS = 10
SHIFT = 90 * 1_000_000  # µs that a clock may be wrong, either way
SEED = int(os.environ.get("SEED", "7"))
KILL_EVERY = 0.15


class FastClock:
    """Simulated time, which all processes share but for a shift of their own."""

    def __init__(self, epoch: float, shift: int = 0) -> None:
        self._epoch = epoch
        self._shift = shift

    def now(self) -> int:
        return BEGIN + round((time.monotonic() - self._epoch) * SPEED * 1_000_000) + self._shift

    def monotonic(self) -> float:
        return time.monotonic()


def make_app(url: str, clock: FastClock) -> Tenure:
    app = Tenure(url, clock=clock, environment="development")

    @app.job
    def noop() -> None: ...

    def schedule(name):
        return app.schedule("noop").named(name).misfire("all", limit=10_000, age="30d")

    schedule("minutely").every_minute()
    schedule("fives").every_five_minutes().jitter(50)
    schedule("quarters").cron("7-59/15 * * * *", timezone="Asia/Kathmandu")
    schedule("dependent").every_minute().depends_on("minutely")
    return app


def keep(url: str, epoch: float, shift: int, end: int, seed: int) -> None:
    """One life of a scheduler, in a process of its own."""
    chance = random.Random(seed)
    clock = FastClock(epoch, shift)
    app = make_app(url, clock)
    scheduler = app.cron.scheduler(None)
    while clock.now() < end + shift:
        with suppress(BackendError):
            scheduler.beat()
        time.sleep(chance.uniform(0, 0.03))


class Fleet:
    """Processes that are killed and replaced."""

    def __init__(self, url: str, epoch: float, end: int) -> None:
        self._life = (url, epoch, end)
        self._chance = random.Random(SEED)
        self._seeds = count(SEED)
        self.pids = [self._start() for _ in range(SCHEDULERS)]
        self.kills = 0

    def kill_one(self) -> None:
        victim = self._chance.randrange(SCHEDULERS)
        os.kill(self.pids[victim], signal.SIGKILL)
        os.waitpid(self.pids[victim], 0)
        self.pids[victim] = self._start()
        self.kills += 1

    def finish(self) -> list[int]:
        """Let all of them come to their end."""
        pids, self.pids = self.pids, []
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _start(self) -> int:
        url, epoch, end = self._life
        shift, seed = self._chance.randint(-SHIFT, SHIFT), next(self._seeds)
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            keep(url, epoch, shift, end, seed)
            code = 0
        finally:
            os._exit(code)


class Consumer:
    """Ends whatever was enqueued and counts it; where the ledger alone must do, ended jobs are forgotten at once."""

    def __init__(self, backend) -> None:
        self._backend = backend
        self._ledger = backend.ledger
        self._forgets = backend.ledger.booking is not None
        self.seen: Counter[str] = Counter()

    def take(self) -> None:
        while leases := self._backend.lease(["default"], limit=500, seconds=600 * SPEED):
            self.seen.update(lease.id for lease in leases)
            assert self._backend.ack([Ack(lease=lease) for lease in leases]) == []
            self._ledger.note([Note(lease.id, "succeeded") for lease in leases])
            if self._forgets:
                self._backend.jobs.trim("done", 1 << 62, 1000)


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
    return request.getfixturevalue({"postgresql": "postgres_url", "redis": "redis_url"}[request.param])


@pytest.mark.timeout(1800)
def test_ten_schedulers_killed_at_random_enqueue_each_due_tick_exactly_once(url):
    end, epoch = BEGIN + MINUTES * MINUTE, time.monotonic()
    with closing(make_app(url, FastClock(epoch))) as app:
        schedules = app.schedules.all()
        app.cron.ledger.enter([began(schedule.name) for schedule in schedules])
        consumer, clock = Consumer(app.backend), FastClock(epoch)
        chance = random.Random(SEED)
        with Fleet(url, epoch, end) as fleet:
            while clock.now() < end:
                time.sleep(chance.uniform(0, KILL_EVERY))
                fleet.kill_one()
                consumer.take()
            assert fleet.finish() == [0] * SCHEDULERS
        clean_up(url, epoch, consumer)
    due = {tick_id(each.name, tick): each.name for each in schedules for tick in ticks(each, end)}
    assert fleet.kills  # how many there are time for depends on the host
    assert {id: times for id, times in consumer.seen.items() if times != 1} == {}, f"enqueued twice, seed {SEED}"
    assert Counter(name for id, name in due.items() if id not in consumer.seen) == {}, f"never enqueued, seed {SEED}"


def clean_up(url: str, epoch: float, consumer: Consumer) -> None:
    """What those that were killed last had begun, and what waited for it, is left to one more scheduler."""
    with closing(make_app(url, FastClock(epoch, shift=SHIFT + MINUTE))) as app:
        scheduler = app.cron.scheduler(None)
        for _ in range(4):
            scheduler.beat()
            consumer.take()
            time.sleep(0.1)


def began(name: str) -> TickRecord:
    """So that every scheduler knows where to begin."""
    return TickRecord(id=tick_id(name, BEGIN), schedule=name, tick=BEGIN, due=BEGIN, state="succeeded")


def ticks(schedule, end):
    tick = schedule.after(BEGIN)
    while tick <= end:
        yield tick
        tick = schedule.after(tick)
