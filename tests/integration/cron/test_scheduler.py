"""The scheduler enqueues each due tick once, holds dependents back, and records what happened."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from secrets import token_hex
from threading import Barrier, Thread, local

import pytest
from msgspec import structs

from tenure import Cancel, Context, Tenure
from tenure.backends.ledger import Note, TickRecord
from tenure.backends.messages import Abandon, Ack
from tenure.cron.schedule import tick_id
from tenure.errors import BackendUnavailable, SettingsError
from tenure.events import TickFailed, TickSkipped, TickSucceeded
from tenure.testing import FakeClock
from tenure.wire.signing import new_key
from tenure.worker.janitor import Janitor
from tests.support.waiting import WAIT_SECONDS, eventually

MINUTE = 60.0
TICK = (TickSkipped, TickSucceeded, TickFailed)


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC))


@pytest.fixture(params=["memory", "sqlite", "redis"])
def app(request, tmp_path, clock):
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}.get(request.param)
    app = Tenure(url or request.getfixturevalue("redis_url"), clock=clock, environment="development")

    @app.job
    def load() -> str:
        return "loaded"

    @app.job
    def report() -> None: ...

    @app.job
    def fail() -> None:
        raise ValueError("no luck")

    app.told = []
    app.listen(lambda event: app.told.append(event) if isinstance(event, TICK) else None)
    with closing(app):
        yield app


class Beats:
    """A scheduler that beats when the test says so; what is inline is kept for the test to look at."""

    def __init__(self, app, clock):
        self.inline = []
        self._clock = clock
        self._scheduler = app.cron.scheduler(lambda schedule, tick: self.inline.append((schedule.name, tick)))
        self._scheduler.beat()

    def after(self, seconds):
        self._clock.advance(seconds)
        return self._scheduler.beat()


@pytest.fixture
def start(app, clock):
    return lambda: Beats(app, clock)


def states(app, name):
    """The states of a schedule's ticks, the oldest first."""
    return [record.state for record in reversed(app.cron.history(name))]


def whys(app, name):
    return [record.why for record in reversed(app.cron.history(name))]


def work(app, *queues):
    return app.worker(*(queues or ("default",)), burst=True).run()


def test_what_is_due_is_enqueued_and_its_end_is_written_down(app, start):
    app.schedule("load").every_minute()
    beats = start()
    assert states(app, "load") == []

    assert beats.after(MINUTE) == pytest.approx(1.0)
    assert states(app, "load") == ["enqueued"]
    (tick,) = app.cron.history("load")
    work(app)

    assert states(app, "load") == ["succeeded"]
    assert app.told == [TickSucceeded("load", tick.tick, tick.id, seconds=0.0)]
    assert app.backend.jobs.find(tick.id).state == "done"


def test_the_next_look_is_at_the_next_tick(app, start):
    app.schedule("load").every_minute()
    beats = start()
    assert beats.after(29.6) == pytest.approx(0.4)


def test_schedulers_side_by_side_enqueue_each_tick_once(app, start, clock):
    app.schedule("load").every_minute()
    several = [start() for _ in range(3)]
    for _ in range(4):
        clock.advance(MINUTE)
        for beats in several:
            beats.after(0)
    assert states(app, "load") == ["enqueued"] * 4
    assert app.backend.queues.counts()["default"]["ready"] == 4


def test_a_job_that_dies_fails_its_tick(app, start):
    app.schedule("fail").every_minute()
    start().after(MINUTE)
    work(app)
    assert states(app, "fail") == ["failed"]
    assert [type(event) for event in app.told] == [TickFailed]


def test_a_dead_letter_that_is_replayed_may_still_succeed(app, start):
    app.schedule("load").every_minute()
    start().after(MINUTE)
    (tick,) = app.cron.history("load")
    (lease,) = app.backend.lease(["default"], limit=1, seconds=60)
    app.backend.abandon([Abandon(lease=lease, reason="failed")])
    app.cron.ledger.note([Note(tick.id, "failed", "failed")])
    app.backend.dead_letters.replay([tick.id])
    work(app)
    assert states(app, "load") == ["succeeded"]


def test_a_dependent_starts_when_its_dependency_has_succeeded(app, start):
    app.schedule("report").every_minute().depends_on("load").queue("reports")
    app.schedule("load").every_minute()
    beats = start()
    beats.after(MINUTE)
    assert (states(app, "load"), states(app, "report")) == (["enqueued"], ["waiting"])
    beats.after(5)
    assert states(app, "report") == ["waiting"]
    assert work(app, "reports") == {}

    work(app)  # the worker that ran the dependency lets the dependent go
    assert (states(app, "load"), states(app, "report")) == (["succeeded"], ["enqueued"])
    work(app, "reports")
    assert states(app, "report") == ["succeeded"]


def test_a_dependent_is_let_go_though_the_end_of_its_dependency_was_not_told(app, start):
    app.schedule("report").every_minute().depends_on("load")
    app.schedule("load").every_minute()
    beats = start()
    beats.after(MINUTE)
    (lease,) = app.backend.lease(["default"], limit=1, seconds=60)
    app.backend.ack([Ack(lease=lease)])
    beats.after(2)
    assert (states(app, "load"), states(app, "report")) == (["succeeded"], ["enqueued"])


def test_a_failed_dependency_skips_its_dependents_down_the_line(app, start):
    app.schedule("report").every_minute().depends_on("load")
    app.schedule("load").every_minute().depends_on("fail")
    app.schedule("fail").every_minute()
    beats = start()
    beats.after(MINUTE)
    work(app)
    beats.after(2)
    assert [states(app, name) for name in ("fail", "load", "report")] == [["failed"], ["skipped"], ["skipped"]]
    assert whys(app, "load") == ["depends on 'fail', which failed"]
    assert whys(app, "report") == ["depends on 'load', which was skipped"]
    assert [event.schedule for event in app.told if isinstance(event, TickSkipped)] == ["load", "report"]


def test_a_dependency_that_is_not_due_holds_nothing_back(app, start):
    app.schedule("report").every_minute().depends_on("load")
    app.schedule("load").hourly()
    start().after(MINUTE)
    assert states(app, "report") == ["enqueued"]


def test_a_dependency_that_is_disabled_skips_its_dependent(app, start):
    app.schedule("report").every_minute().depends_on("load")
    app.schedule("load").every_minute().disable()
    start().after(MINUTE)
    assert (states(app, "load"), states(app, "report")) == ([], ["skipped"])


def test_a_tick_is_skipped_while_an_earlier_one_has_not_ended(app, start):
    app.schedule("load").every_minute().overlap("skip")
    beats = start()
    beats.after(MINUTE)
    beats.after(MINUTE)
    assert states(app, "load") == ["enqueued", "skipped"]
    work(app)
    beats.after(MINUTE)
    assert states(app, "load") == ["succeeded", "skipped", "enqueued"]
    assert whys(app, "load")[1] == "an earlier tick has not ended"


def test_one_tick_waits_for_an_earlier_one_to_end(app, start):
    app.schedule("load").every_minute().overlap("queue_one")
    beats = start()
    for _ in range(3):
        beats.after(MINUTE)
    assert states(app, "load") == ["enqueued", "waiting", "skipped"]
    work(app)  # lets the second go and runs it, too, or leaves it ready
    beats.after(2)
    assert states(app, "load")[0] == "succeeded"
    assert states(app, "load")[1] in ("enqueued", "succeeded")


def test_paused_schedules_are_skipped_until_they_are_resumed(app, start):
    app.schedule("load").every_minute()
    app.schedule("report").every_minute()
    beats = start()
    app.cron.pause("load")
    beats.after(MINUTE)
    app.cron.pause()
    beats.after(MINUTE)
    app.cron.resume()
    app.cron.resume("load")
    beats.after(MINUTE)
    assert states(app, "load") == ["skipped", "skipped", "enqueued"]
    assert states(app, "report") == ["enqueued", "skipped", "enqueued"]
    assert whys(app, "load")[:2] == ["paused", "all schedules are paused"]


def test_what_was_missed_is_dropped_and_written_down(app, start):
    app.schedule("load").every_minute()
    start().after(MINUTE)
    later = start()
    later.after(10 * MINUTE)
    assert states(app, "load") == ["enqueued", "skipped", "enqueued"]
    assert whys(app, "load")[1].startswith("missed, with all before it since 2026-01-01T00:02Z")


def test_what_was_missed_is_made_up_for_after_a_restart(app, start, clock):
    app.schedule("load").every_minute().misfire("all")
    app.schedule("report").every_minute().misfire("latest")
    start().after(MINUTE)
    clock.advance(10 * MINUTE)
    start()
    assert states(app, "load") == ["enqueued"] * 11
    assert states(app, "report") == ["enqueued", "skipped", "enqueued"]


def test_a_schedule_that_the_ledger_does_not_know_begins_now(app, start):
    app.schedule("load").every_minute().misfire("all")
    start()
    assert states(app, "load") == []


def test_a_clock_that_goes_back_repeats_nothing(app, start, clock):
    app.schedule("load").every_minute()
    beats = start()
    beats.after(MINUTE)
    clock.jump(-3600)
    beats.after(0)
    start().after(1)
    assert states(app, "load") == ["enqueued"]


def test_a_clock_that_was_far_ahead_for_a_while_stops_nothing(app, start, clock):
    app.schedule("load").every_minute()
    beats = start()
    clock.jump(10 * 365 * 86_400)
    beats.after(0)
    assert states(app, "load") == ["skipped", "enqueued"]
    clock.jump(-10 * 365 * 86_400)
    beats.after(MINUTE)
    assert states(app, "load") == ["enqueued", "skipped", "enqueued"]
    start().after(MINUTE)
    assert states(app, "load") == ["enqueued"] * 2 + ["skipped", "enqueued"]


def test_a_tick_that_was_run_ahead_of_its_time_switches_no_catching_up_off(app, start, clock):
    app.schedule("load").every_minute().misfire("all")
    start().after(MINUTE)
    ahead = clock.now() + 365 * 86_400_000_000
    app.cron.run(at=ahead)
    clock.advance(10 * MINUTE)
    start()
    assert states(app, "load") == ["enqueued"] * 12
    assert app.cron.ledger.last_ticks()["load"] == clock.now() // 60_000_000 * 60_000_000


def test_an_intent_that_was_given_up_is_put_again(app, start):
    app.schedule("load").every_minute()
    beats = start()
    whole = app.backend.put

    def broken(messages):
        raise BackendUnavailable("gone")

    if hasattr(app.cron.ledger, "book"):
        pytest.skip("this ledger is written together with the queue")
    app.backend.put = broken
    with pytest.raises(BackendUnavailable):
        beats.after(MINUTE)
    assert states(app, "load") == ["intended"]
    app.backend.put = whole
    beats.after(2)
    assert states(app, "load") == ["intended"]
    beats.after(4)
    assert states(app, "load") == ["enqueued"]
    assert app.backend.queues.counts()["default"]["ready"] == 1


def test_an_outage_loses_no_tick(app, start):
    app.schedule("load").every_minute()
    beats = start()
    ledger = app.cron.ledger
    verb = "book" if hasattr(ledger, "book") else "enter"
    whole = getattr(ledger, verb)

    def broken(*arguments):
        raise BackendUnavailable("gone")

    setattr(ledger, verb, broken)
    with pytest.raises(BackendUnavailable):
        beats.after(MINUTE)
    setattr(ledger, verb, whole)
    beats.after(20)
    assert states(app, "load") == ["enqueued"]


def test_jobs_of_a_job_that_could_not_be_made_fail_alone(app, start):
    app.schedule("load").every_minute()
    app.schedule("report").every_minute()
    beats = start()
    app.registry._wrapped.pop("load")
    beats.after(MINUTE)
    assert (states(app, "load"), states(app, "report")) == (["failed"], ["enqueued"])


def test_what_is_inline_is_run_by_one_scheduler(app, start, clock):
    app.schedule("load").every_minute().inline()
    app.schedule("report").every_minute().depends_on("load").inline()
    first, second = start(), start()
    clock.advance(MINUTE)
    first.after(0)
    second.after(0)
    assert [name for name, _ in first.inline + second.inline] == ["load"]
    assert states(app, "load") == ["running"]
    app.cron.ledger.note([Note(tick_id("load", first.inline[0][1]), "succeeded")])
    clock.advance(2)
    second.after(0)
    first.after(0)
    assert [name for name, _ in first.inline + second.inline] == ["load", "report"]


def test_an_inline_run_whose_scheduler_vanished_has_failed_in_the_end(app, start):
    app.schedule("load").every_minute().inline().timeout(30)
    beats = start()
    beats.after(MINUTE)
    beats.after(40)
    assert states(app, "load")[0] == "running"
    beats.after(100)
    assert states(app, "load")[0] == "failed"


def test_a_tick_whose_job_was_deleted_has_failed_in_the_end(app, start, clock):
    app.schedule("load").hourly()
    beats = start()
    beats.after(3600)
    app.backend.control.cancel([app.cron.history("load")[0].id])
    app.backend.jobs.trim("cancelled", clock.now() + 1, 10)
    beats.after(3600)
    beats.after(40)
    assert states(app, "load")[0] == "failed"


def test_run_does_this_minute_and_tells_what_became_of_it(app):
    app.schedule("load").every_minute()
    app.schedule("fail").every_minute().inline()
    app.schedule("report").every_minute().depends_on("fail")
    ran = {each.schedule.name: each for each in app.cron.run()}
    assert {name: (each.record.state, each.is_new) for name, each in ran.items()} == {
        "load": ("enqueued", True),
        "fail": ("failed", True),
        "report": ("skipped", True),
    }
    assert "no luck" in ran["fail"].record.why
    assert all(not each.is_new for each in app.cron.run())
    assert app.backend.queues.counts()["default"]["ready"] == 1


def test_what_ran_inline_is_recorded_as_a_job_is(app):
    app.schedule("load").every_minute().inline()
    app.schedule("fail").every_minute().inline()
    fine, broken = (app.parts().find(each.record.id) for each in app.cron.run())
    assert (fine.state, fine.handler, fine.output) == ("done", "load", "loaded")
    assert (broken.state, broken.handler, broken.attempts, broken.reason) == ("failed", "fail", 1, "retries_exhausted")
    assert fine.seconds is not None
    assert broken.seconds is not None
    assert 'raise ValueError("no luck")' in broken.failures[0].trace
    assert [record.why for record in app.cron.history("fail")] == ["ValueError: no luck"]


def test_no_dead_letter_is_announced_for_what_failed_inline(app, monkeypatch, caplog):
    told = []

    @app.job
    def mourn(ctx: Context) -> None:
        told.append(ctx.meta)

    monkeypatch.setattr(app, "settings", structs.replace(app.settings, on_dead="mourn"))
    app.schedule("fail").every_minute().inline()
    app.cron.run()
    assert (told, app.backend.dead_letters.page()) == ([], [])
    assert "schedule 'fail' failed: ValueError: no luck" in caplog.text
    assert [each.getMessage() for each in caplog.records if each.levelname == "CRITICAL"] == []


def test_an_inline_job_that_did_not_run_fails_its_tick(app):
    @app.job
    def leave() -> None:
        raise Cancel("nothing to do")

    @app.job(rate="1/h")
    def seldom() -> None: ...

    app.schedule("leave").every_minute().inline()
    app.schedule("seldom").every_minute().inline()
    app.schedule("seldom").named("too often").every_minute().inline()
    left, first, second = (each.record for each in app.cron.run())
    assert (left.state, left.why) == ("failed", "nothing to do")
    assert (first.state, second.state) == ("succeeded", "failed")
    assert second.why.startswith("JobFailed: it may not run now: ")
    assert app.parts().find(left.id).state == "cancelled"


def test_the_janitor_deletes_what_ran_inline(app, clock):
    app.schedule("load").every_minute().inline()
    app.schedule("fail").every_minute().inline()
    ids = [each.record.id for each in app.cron.run()]
    janitor = Janitor(app.parts(), clock, {"done": 7 * 86_400.0, "dead": 30 * 86_400.0}, payload_bytes=1000)
    janitor.clean()
    assert [app.parts().find(id).state for id in ids] == ["done", "failed"]
    clock.advance(8 * 86_400)
    janitor.clean()
    assert [app.parts().find(id) and "kept" for id in ids] == [None, "kept"]
    clock.advance(30 * 86_400)
    janitor.clean()
    assert [app.parts().find(id) for id in ids] == [None, None]


@pytest.mark.parametrize("arguments", [{}, {"only": ["load", "report"]}], ids=["due", "only"])
def test_of_several_runs_at_once_one_tells_that_a_tick_is_new(app, monkeypatch, arguments):
    app.schedule("load").every_minute()
    app.schedule("report").every_minute().inline()
    runs, ledger, seen, together = 4, app.cron.ledger, local(), Barrier(4, timeout=WAIT_SECONDS)
    paused = ledger.paused

    def paused_at_once():
        """Each run reads it before it enters ticks: none goes on before all have come here."""
        if not hasattr(seen, "waited"):
            seen.waited = True
            together.wait()
        return paused()

    monkeypatch.setattr(ledger, "paused", paused_at_once)
    with ThreadPoolExecutor(runs) as threads:
        futures = [threads.submit(app.cron.run, **arguments) for _ in range(runs)]
        ran = [each for future in futures for each in future.result()]
    assert len(ran) == 2 * runs
    assert Counter(each.schedule.name for each in ran if each.is_new) == {"load": 1, "report": 1}


def test_run_tells_of_what_is_off_and_writes_nothing_down(app):
    app.schedule("load").every_minute().environments("staging")
    app.schedule("report").every_minute().depends_on("load")
    ran = app.cron.run()
    assert [(each.schedule.name, each.record.state, each.record.why) for each in ran] == [
        ("load", "skipped", "only in staging; this is development"),
        ("report", "skipped", "depends on 'load', which was skipped"),
    ]
    assert (states(app, "load"), states(app, "report")) == ([], ["skipped"])


def test_what_waits_for_a_schedule_that_is_gone_ends_after_a_day(app, start):
    beats = start()
    tick = TickRecord(id=tick_id("old", 60_000_000), schedule="old", tick=60_000_000, due=60_000_000, state="waiting")
    app.cron.ledger.enter([tick])
    beats.after(86_000)
    assert states(app, "old") == ["waiting"]
    beats.after(1000)
    assert (states(app, "old"), whys(app, "old")) == (["skipped"], ["its schedule no longer exists"])


def test_run_makes_up_for_missed_minutes(app, clock):
    app.schedule("load").every_minute().misfire("all")
    app.cron.run()
    clock.advance(3 * MINUTE)
    app.cron.run()
    assert states(app, "load") == ["enqueued"] * 4


def test_run_only_some_whenever_they_are_due(app):
    app.schedule("load").yearly("04:00")
    app.schedule("report").yearly("05:00").depends_on("load").queue("reports")
    app.schedule("fail").every_minute()
    ran = app.cron.run(only=["load", "report"])
    assert [(each.schedule.name, each.record.state) for each in ran] == [("load", "enqueued"), ("report", "waiting")]
    work(app)
    assert states(app, "report") == ["enqueued"]
    assert states(app, "fail") == []


def test_what_is_due_is_listed_without_running_it(app):
    app.schedule("load").hourly()
    app.schedule("report").every_minute().inline()
    app.schedule("fail").hourly()
    app.cron.pause("fail")

    due = app.cron.due(datetime(2026, 1, 1, 9, 0, tzinfo=UTC))

    assert [(each.schedule.name, each.action, each.why) for each in due] == [
        ("load", "enqueue", None), ("report", "run", None), ("fail", "skip", "paused"),
    ]  # fmt: skip
    assert [each.schedule.name for each in app.cron.due(datetime(2026, 1, 1, 9, 1, tzinfo=UTC))] == ["report"]
    assert [each.schedule.name for each in app.cron.due(only=["load"])] == ["load"]
    assert [states(app, name) for name in ("load", "report", "fail")] == [[], [], []]


def test_run_enqueues_what_is_jittered_for_later(app):
    schedule = app.schedule("load").every_minute().jitter(59).freeze("UTC")
    (ran,) = app.cron.run()
    record = app.backend.jobs.find(ran.record.id)
    assert record.due_at in (schedule.due_at(ran.record.tick), record.enqueued_at)


def test_a_scheduler_loop_ticks_until_it_is_stopped_and_finishes_what_is_inline(tmp_path):
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")
    ended = []

    @app.job
    def tell() -> None: ...

    app.schedule("tell").every_minute().inline().misfire("all")
    app.listen(lambda event: (ended.append(event), keeper.stop(WAIT_SECONDS)) if isinstance(event, TICK) else None)
    now = app.clock.now()
    past = now - now % 60_000_000 - 120_000_000
    app.cron.ledger.enter(
        [TickRecord(id=tick_id("tell", past), schedule="tell", tick=past, due=past, state="succeeded")]
    )
    keeper = app.cron.loop()
    keeper.run()
    assert ended
    assert {record.state for record in app.cron.history("tell")} == {"succeeded"}
    app.close()


def test_a_broker_keeps_schedules_with_a_ledger_elsewhere(beanstalk_url, tmp_path):
    store = f"sqlite:///{tmp_path}/store.db"
    prefix = f"test-{token_hex(6)}."
    with Tenure(f"{beanstalk_url}?prefix={prefix}", store=store, environment="development") as app:

        @app.job
        def load() -> None: ...

        app.schedule("load").every_minute()
        (ran,) = app.cron.run()
        (again,) = app.cron.run(at=ran.record.tick)
        assert (ran.record.state, ran.is_new, again.is_new) == ("enqueued", True, False)
        work(app)
        assert states(app, "load") == ["succeeded"]
        app.schedule("load").named("here").every_minute().inline()
        here = next(each.record for each in app.cron.run() if each.schedule.name == "here")
        assert (here.state, app.parts().find(here.id).state) == ("succeeded", "done")


def test_a_broker_without_a_ledger_refuses_to_keep_schedules(beanstalk_url):
    with Tenure(beanstalk_url, keys=[new_key().dump()]) as app:
        app.schedule(app.define("event", {"name": "x"}).build()).every_minute()
        with pytest.raises(SettingsError, match="set store to a server"):
            app.cron.run()


@pytest.mark.parametrize("kind", ["redis", "postgresql"])
def test_a_scheduler_loop_outlives_its_server_and_loses_no_tick(kind, own_server, clock, caplog):
    server = own_server(kind, durable=True)
    with Tenure(server.url, clock=clock, environment="development") as app:

        @app.job
        def load() -> None: ...

        app.schedule("load").every_minute()
        keeper = app.cron.loop()
        thread = Thread(target=keeper.run)
        thread.start()
        try:
            assert keeper.ready.wait(WAIT_SECONDS)
            clock.advance(MINUTE)
            eventually(lambda: states(app, "load") == ["enqueued"])
            server.kill()
            clock.advance(MINUTE)
            eventually(lambda: "the scheduler could not reach its backend, trying again" in caplog.text)
            server.start()
            eventually(lambda: states(app, "load") == ["enqueued"] * 2)
        finally:
            keeper.stop()
            thread.join(WAIT_SECONDS)
        assert app.backend.queues.counts()["default"]["ready"] == 2
