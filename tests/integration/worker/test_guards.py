"""Guards through real workers: idempotency keys, single instances, rates, breakers and unique jobs."""

import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from tenure import Context, Tenure
from tenure.app.explain.collect import explained
from tenure.app.workers import WorkerBuilder
from tenure.backends.messages import Park
from tenure.errors import (
    BackendUnavailable,
    Cancel,
    CircuitOpen,
    DuplicateJob,
    Fail,
    JobFailed,
    RateLimited,
    Retry,
    SettingsError,
    Snooze,
    StopNow,
)
from tenure.events import Status
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.idempotency import Idempotency
from tenure.guards.rate_limit import RateLimit, parse_rate
from tenure.guards.states import Holder, claim_key, lock_key, queue_rate_key, unpack
from tenure.guards.store import KeyUpdate
from tenure.worker.guard_holder import GuardHolder
from tests.support.waiting import eventually


@pytest.fixture
def run(app):
    """Runs what is ready, and what that wakes, here and now."""
    return lambda: app.worker(burst=True).run()


def hold(app, guard, seconds=15.0):
    """Somebody elsewhere holds this."""
    assert app.backend.guards.change([take_guards([guard], Holder("somebody", 1, seconds))]) == [None]


class TestIdempotency:
    def test_a_second_job_with_the_key_is_skipped_and_says_which_did_it(self, app, run):
        ran = []
        job = app.job(name="charge")(lambda: ran.append(1))
        first, second = (job.using(idempotency_key="order-7").enqueue() for _ in range(2))
        tally = run()
        assert (tally[Status.ACKED], tally[Status.SKIPPED_IDEMPOTENT]) == (1, 1)
        assert ran == [1]
        record = app.backend.jobs.find(second)
        assert (record.state, record.reason) == ("done", f"skipped-idempotent: job {first} has done it")

    def test_a_job_that_failed_runs_again(self, app, run, clock):
        """The first failure must not turn into a silent skip."""
        ran = []

        @app.job(idempotency_key="order-7", max_retries=1, backoff="none")
        def charge():
            ran.append(1)
            if len(ran) == 1:
                raise Retry("not yet", delay=0)

        charge.enqueue()
        run()
        assert len(ran) == 2
        assert app.metrics  # it was counted as a success, not as a skip

    def test_a_job_with_the_key_of_a_dead_one_runs(self, app, run):
        ran = []

        @app.job(idempotency_key="order-7")
        def charge(good: bool):
            ran.append(good)
            if not good:
                raise ValueError

        charge.enqueue(good=False)
        charge.enqueue(good=True)
        run()
        assert ran == [False, True]

    def test_a_forgotten_key_runs_again(self, app, run):
        ran = []
        job = app.job(name="charge", idempotency_key="order-7")(lambda: ran.append(1))
        job.enqueue()
        run()
        assert app.forget("order-7")
        assert not app.forget("order-7")
        job.enqueue()
        run()
        assert ran == [1, 1]

    def test_a_key_is_remembered_for_its_time(self, app, run, clock):
        ran = []
        job = app.job(name="charge", idempotency_key="order-7", idempotency_ttl="1h")(lambda: ran.append(1))
        job.enqueue()
        run()
        clock.advance(3599)
        job.enqueue()
        run()
        clock.advance(2)
        job.enqueue()
        run()
        assert ran == [1, 1]

    def test_a_job_whose_key_another_holds_waits_at_no_cost(self, app, run, clock):
        job = app.job(name="charge", idempotency_key="order-7")(lambda: None)
        hold(app, Idempotency(claim_key("order-7")))
        id = job.enqueue()
        run()
        record = app.backend.jobs.find(id)
        assert (record.state, record.attempts, record.waits_for) == ("parked", 0, "once:order-7")


class TestOneAtATime:
    def test_contention_spends_nothing_and_the_job_runs_when_the_lock_is_free(self, app, run):
        """With no retries at all a contended job must not die."""
        ran = []
        job = app.job(name="aggregate", single_instance=True)(lambda: ran.append(1))
        lock = ConcurrencyLimit(lock_key("aggregate"))
        hold(app, lock)
        id = job.enqueue()
        run()
        assert app.backend.jobs.find(id).state == "parked"
        app.guards.unlock("aggregate")
        assert run() == {Status.ACKED: 1}
        assert ran == [1]
        assert app.backend.jobs.find(id).attempts == 0

    def test_many_jobs_of_one_lock_all_run(self, app, run):
        ran = []
        job = app.job(name="aggregate", single_instance=True)(lambda: ran.append(1))
        for _ in range(20):
            job.enqueue()
        run()
        assert len(ran) == 20

    def test_the_lock_is_that_of_the_jobs_name_else_of_its_handler(self, app, run):
        job = app.job(name="aggregate", single_instance=True)(lambda: None)
        hold(app, ConcurrencyLimit(lock_key("nightly")))
        named = job.using(name="nightly").enqueue()
        free = job.enqueue()
        run()
        assert [app.backend.jobs.find(id).state for id in (named, free)] == ["parked", "done"]

    def test_a_lock_is_given_back_however_the_job_ends(self, app, run):
        @app.job(single_instance=True)
        def fail():
            raise ValueError

        for _ in range(3):
            fail.enqueue()
        assert run()[Status.DEAD_LETTERED] == 3

    def test_at_most_so_many_by_key(self, app, run):
        job = app.job(name="import_one", at_most=2)(lambda tenant: None)
        for holder in "ab":
            app.backend.guards.change([take_guards([ConcurrencyLimit("most:key:t1", 2)], Holder(holder, 1, 15.0))])
        waits = job.using(key="t1").enqueue(tenant="t1")
        runs = job.using(key="t2").enqueue(tenant="t2")
        run()
        assert [app.backend.jobs.find(id).state for id in (waits, runs)] == ["parked", "done"]

    def test_the_waiter_of_a_holder_that_vanished_runs_when_its_lease_is_over(self, app, clock, run):
        job = app.job(name="aggregate", single_instance=True)(lambda: None)
        hold(app, ConcurrencyLimit(lock_key("aggregate")), seconds=15)
        id = job.enqueue()
        run()
        clock.advance(16)
        app.backend.parking.wake(None, 10)
        run()
        assert app.backend.jobs.find(id).state == "done"


class TestRates:
    def test_a_limited_queue_starts_no_more_than_its_rate_and_spends_nothing_on_empty_polls(self, url):
        """An idle worker must not burn its budget."""
        with Tenure(url, rates={"mail": "5/s burst 2"}, queues=("mail",)) as app:
            ran = []
            job = app.job(name="send", queue="mail")(lambda: ran.append(time.monotonic()))
            for _ in range(3):
                app.worker(burst=True).run()
            assert app.guards.queue("mail").usage().used == 0
            for _ in range(6):
                job.enqueue()
            began = time.monotonic()
            app.worker(max=6).run()
            assert len(ran) == 6
            assert all(sum(start <= other < start + 1 for other in ran) <= 5 + 1 for start in ran)
            assert ran[-1] - began >= 4 * 0.25 - 0.05

    def test_an_exhausted_queue_does_not_stop_the_others(self, url):
        with Tenure(url, rates={"slow": "1/h"}, queues=("slow", "fast")) as app:
            ran = []
            job = app.job(name="note")(lambda what: ran.append(what))
            for _ in range(3):
                job.using(queue="slow").enqueue(what="slow")
                job.using(queue="fast").enqueue(what="fast")
            app.worker(max=4).run()
            assert sorted(ran) == ["fast", "fast", "fast", "slow"]
            waiting = app.backend.queues.counts()["slow"]
            assert waiting["ready"] + waiting["parked"] == 2

    def test_a_burst_does_not_wait_for_tokens(self, url):
        with Tenure(url, rates={"slow": "1/h"}, queues=("slow",)) as app:
            job = app.job(name="note", queue="slow")(lambda: None)
            for _ in range(3):
                job.enqueue()
            assert app.worker(burst=True).run()[Status.ACKED] == 1

    def test_a_store_that_is_away_for_a_moment_stops_no_worker(self, url, monkeypatch):
        with Tenure(url, rates={"slow": "100/s"}, queues=("slow",)) as app:
            job = app.job(name="note", queue="slow")(lambda: None)
            job.enqueue()
            read, fails = app.backend.guards.read, [BackendUnavailable("away")] * 7

            def away(keys):
                if fails:
                    raise fails.pop()
                return read(keys)

            monkeypatch.setattr(app.backend.guards, "read", away)
            assert app.worker(max=1).run()[Status.ACKED] == 1

    def test_jobs_beyond_a_handlers_rate_wait_and_run_as_tokens_come(self, url):
        with Tenure(url) as app:
            ran = []
            job = app.job(name="call", rate="10/s")(lambda: ran.append(time.monotonic()))
            for _ in range(5):
                job.enqueue()
            began = time.monotonic()
            app.worker(max=5).run()
            assert len(ran) == 5
            assert ran[-1] - began >= 0.4 - 0.02

    def test_a_rate_by_key(self, app, run):
        job = app.job(name="call", rate="1/h")(lambda: None)
        ids = [job.using(key=key).enqueue() for key in ("a", "a", "b")]
        run()
        assert [app.backend.jobs.find(id).state for id in ids] == ["done", "parked", "done"]

    def test_usage_reset_and_the_raising_variant(self, app):
        limiter = app.guards.rate("1/min", key="api")
        limiter.throttle()
        with pytest.raises(RateLimited) as caught:
            limiter.throttle()
        assert 0 < caught.value.again <= 60
        assert limiter.usage().used == 1
        assert not limiter.allow()
        limiter.reset()
        assert limiter.allow()

    @pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
    def test_jobs_that_wait_for_a_rate_that_was_lifted_run_at_once(self, url):
        ids = self.wait_for_the_rate(url, "1/h", 20)
        with Tenure(url, queues=("mail",)) as app:
            app.job(name="send", queue="mail")(lambda: None)
            (reason,) = [
                each for each in explained(app, ids[-1], has_handlers=True)[1].reasons if each.code == "waking"
            ]
            assert app.worker(burst=True).run()[Status.ACKED] == 20
        assert "the next worker that starts wakes it at once" in reason.text

    @pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
    def test_jobs_that_wait_for_a_rate_that_was_raised_run_as_the_new_rate_allows(self, url):
        self.wait_for_the_rate(url, "1/h", 20)
        with Tenure(url, queues=("mail",), rates={"mail": "10/h burst 8"}) as app:
            app.job(name="send", queue="mail")(lambda: None)
            assert 7 <= app.worker(burst=True).run()[Status.ACKED] <= 8

    def wait_for_the_rate(self, url, rate, count):
        """So many jobs are parked for the rate of their queue; their ids."""
        with Tenure(url, rates={"mail": rate}, queues=("mail",)) as app:
            job = app.job(name="send", queue="mail")(lambda: None)
            app.guards.queue("mail").throttle()
            ids = [job.enqueue() for _ in range(count)]
            leases = app.backend.lease(["mail"], limit=count, seconds=60)
            key = queue_rate_key("mail")
            assert (
                app.backend.parking.park([Park(lease=lease, key=key, reason="rate_limited") for lease in leases]) == []
            )
            assert app.backend.queues.counts()["mail"]["parked"] == count
            return ids

    def test_a_running_worker_wakes_what_waits_for_a_rate_that_was_lifted(self, url):
        with Tenure(url, queues=("mail",)) as app:
            ran = threading.Semaphore(0)
            job = app.job(name="send", queue="mail")(lambda: ran.release() and None)
            job.enqueue()
            hold(app, RateLimit(queue_rate_key("mail"), parse_rate("1/h")))
            (lease,) = app.backend.lease(["mail"], limit=1, seconds=60)
            app.backend.parking.park([Park(lease=lease, key=queue_rate_key("mail"), reason="rate_limited")])
            app.worker(max=1).run()
            assert ran.acquire(blocking=False)

    def test_a_reset_wakes_as_many_jobs_as_the_bucket_has_tokens(self, app, run):
        job = app.job(name="call", rate="3/h burst 3")(lambda: None)
        ids = [job.enqueue() for _ in range(7)]
        run()
        app.guards.rate(1, handler="call").reset()
        tally = run()
        assert tally[Status.ACKED] == 3
        assert [app.backend.jobs.find(id).state for id in ids] == ["done"] * 6 + ["parked"]

    def test_a_rate_that_is_none_is_refused(self):
        with pytest.raises(SettingsError, match=r"rates\.mail"):
            Tenure("memory://", rates={"mail": "fast"})


class TestBreakers:
    def test_failures_open_it_and_its_jobs_wait_without_spending_attempts(self, app, run, clock):
        down, ran = [True], []

        @app.job(breaker="stripe", max_retries=9, backoff="none")
        def charge():
            ran.append(1)
            if down[0]:
                raise ConnectionError

        first = charge.enqueue()
        run()
        assert (len(ran), app.backend.jobs.find(first).attempts) == (5, 5)
        others = [charge.enqueue() for _ in range(9)]
        run()
        assert len(ran) == 5
        assert [app.backend.jobs.find(id).attempts for id in others] == [0] * 9
        assert app.backend.queues.counts()["default"]["parked"] == 10
        assert (app.guards.breaker("stripe").state(), app.guards.breaker("stripe").failures()) == ("open", 5)

        clock.advance(61)
        app.backend.parking.wake(None, 10)
        run()
        assert len(ran) == 6  # one probe
        down[0] = False
        clock.advance(61)
        app.backend.parking.wake(None, 10)
        run()
        assert app.backend.queues.counts()["default"]["done"] == 10
        assert app.guards.breaker("stripe").state() == "closed"

    def test_it_can_be_used_and_reset_without_a_job(self, app):
        breaker = app.guards.breaker("stripe")
        for _ in range(5):
            with pytest.raises(OSError, match="down"), breaker.closed():
                raise OSError("down")
        with pytest.raises(CircuitOpen), breaker.closed():
            pass
        breaker.reset()
        with breaker.closed():
            pass

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_handler_goes_through_one_and_its_jobs_wait_for_it_without_spending_attempts(
        self, app, run, clock, is_async
    ):
        down, calls = [True], []

        def call():
            calls.append(1)
            if down[0]:
                raise ConnectionError

        def charge(ctx: Context, order: int) -> None:
            with ctx.breaker("stripe"):
                call()

        async def charge_later(ctx: Context, order: int) -> None:
            async with ctx.breaker("stripe"):
                call()

        job = app.job(max_retries=9, backoff="none", single_instance=True)(charge_later if is_async else charge)
        first = job.using(name="first").enqueue(order=1)
        run()
        record = app.backend.jobs.find(first)
        assert (len(calls), record.attempts, record.state, record.waits_for) == (5, 5, "parked", "breaker:stripe")
        second = job.using(name="second", idempotency_key="order-2").enqueue(order=2)
        run()
        assert (len(calls), app.backend.jobs.find(second).attempts, app.backend.jobs.find(second).state) == (
            5,
            0,
            "parked",
        )
        free = ConcurrencyLimit(lock_key("second")).take(*state_of(app, lock_key("second")))
        assert isinstance(free, KeyUpdate)  # what waits holds nothing

        clock.advance(61)
        app.backend.parking.wake(None, 10)
        run()
        assert (len(calls), app.guards.breaker("stripe").state()) == (6, "open")  # one probe
        down[0] = False
        clock.advance(61)
        app.backend.parking.wake(None, 10)
        run()
        assert app.backend.queues.counts()["default"]["done"] == 2
        assert (app.guards.breaker("stripe").state(), app.guards.breaker("stripe").failures()) == ("closed", 0)

    def test_a_handler_may_mind_an_open_breaker_itself(self, app, run):
        @app.job
        def charge(ctx: Context) -> str:
            try:
                with ctx.breaker("stripe"):
                    raise AssertionError("it is open")
            except CircuitOpen:
                return "another time"

        opened(app, "stripe")
        id = charge.enqueue()
        run()
        assert app.result(id) == "another time"

    @pytest.mark.parametrize(
        ("error", "failures"),
        [(Retry("no"), 1), (Fail("no"), 1), (Snooze(9), 0), (Cancel(), 0), (StopNow(), 0), (TimeoutError(), 1)],
    )
    def test_only_what_the_dependency_did_counts(self, app, error, failures):
        with suppress(type(error)), app.guards.breaker("stripe").closed():
            raise error
        assert app.guards.breaker("stripe").failures() == failures

    @pytest.mark.timing
    def test_the_place_of_a_probe_is_kept_for_as_long_as_it_takes_and_no_longer(self):
        app = Tenure("memory://", breaker_cooldown=0.001, lease=1)
        opened(app, "stripe")
        breaker = app.guards.breaker("stripe")
        eventually(lambda: breaker.state() == "half_open")
        with breaker.closed():
            time.sleep(2)  # two leases
            with pytest.raises(CircuitOpen), breaker.closed():
                pass
        assert breaker.state() == "closed"

    def test_a_breaker_that_cannot_be_asked_has_the_job_wait(self, app, run, monkeypatch):
        @app.job
        def charge(ctx: Context) -> None:
            with ctx.breaker("stripe"):
                pass

        def broken():
            raise BackendUnavailable("gone")

        id = charge.enqueue()
        monkeypatch.setattr(app._stores, "guards", lambda _: SimpleNamespace(change=lambda _: broken()))
        holder = GuardHolder(app.backend.guards, is_backend=True, parking=app.backend.parking)
        monkeypatch.setattr(WorkerBuilder, "guard_holder", lambda *_: holder)
        run()
        assert (app.backend.jobs.find(id).state, app.backend.jobs.find(id).attempts) == ("delayed", 0)

    def test_a_reset_wakes_all_that_wait_for_it(self, app, run):
        @app.job
        def charge(ctx: Context) -> None:
            with ctx.breaker("stripe"):
                pass

        opened(app, "stripe")
        for _ in range(3):
            charge.enqueue()
        run()
        assert app.backend.queues.counts()["default"]["parked"] == 3
        app.guards.breaker("stripe").reset()
        run()
        assert app.backend.queues.counts()["default"]["done"] == 3

    def test_a_context_that_no_app_has_made_goes_through(self):
        with Context(id="1", handler="charge", payload=None, queue="default").breaker("stripe"):
            pass


def opened(app, name):
    breaker = app.guards.breaker(name)
    for _ in range(5):
        with suppress(OSError), breaker.closed():
            raise OSError


def state_of(app, key):
    now, states = app.backend.guards.read([key])
    return unpack(states.get(key)), Holder("somebody", 1, 15.0), now


class TestUnique:
    def test_a_second_one_is_not_stored_and_the_first_is_returned(self, app, run):
        job = app.job(name="reindex", unique="index")(lambda: None)
        first = job.enqueue()
        assert job.enqueue() == first
        assert app.backend.queues.counts()["default"]["ready"] == 1
        run()
        assert job.enqueue() != first

    def test_a_second_one_can_be_refused(self, app):
        job = app.job(name="reindex", unique="index", duplicate="refuse")(lambda: None)
        first = job.enqueue()
        with pytest.raises(DuplicateJob) as caught:
            job.enqueue()
        assert caught.value.existing == first

    def test_many_at_once_leave_out_those_that_meet_their_like(self, app):
        job = app.job(name="reindex")(lambda: None)
        ids = app.enqueue_many(job.using(unique=str(number % 3)).build() for number in range(9))
        assert len(ids) == 3


class TestSync:
    def test_the_sync_backend_goes_through_the_same_guards(self):
        with Tenure("sync://") as app:
            ran = []
            job = app.job(name="charge", idempotency_key="order-7", single_instance=True)(lambda: ran.append(1))
            job.enqueue()
            job.enqueue()
            assert ran == [1]

    def test_a_job_inside_itself_cannot_take_its_own_lock(self):
        with Tenure("sync://") as app:

            @app.job(single_instance=True)
            def nested():
                nested.enqueue()

            with pytest.raises(JobFailed, match="lock:nested"):
                nested.enqueue()


class TestForeignStore:
    def test_guards_may_live_elsewhere(self, tmp_path, url):
        with Tenure(url, store=f"sqlite:///{tmp_path}/guards.db") as app:
            ran = []
            job = app.job(name="charge", single_instance=True)(lambda: ran.append(1))
            for _ in range(2):
                job.using(idempotency_key="order-7").enqueue()
                app.worker(max=1).run()
            assert ran == [1]

    def test_where_a_job_cannot_be_parked_it_is_postponed(self, tmp_path, url):
        with Tenure(url, store=f"sqlite:///{tmp_path}/guards.db") as app:
            job = app.job(name="aggregate", single_instance=True)(lambda: None)
            other = Tenure(f"sqlite:///{tmp_path}/guards.db")
            hold(other, ConcurrencyLimit(lock_key("aggregate")), seconds=3600)
            other.close()
            id = job.enqueue()
            app.worker(burst=True).run()
            assert (app.backend.jobs.find(id).state, app.backend.jobs.find(id).attempts) == ("delayed", 0)
