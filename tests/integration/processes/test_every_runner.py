"""A handler gets the same context and may do the same on every runner."""

import re

import pytest

from tests.integration.processes.conftest import NEVER

RUNNERS = ["inline", "process", "threads", "event_loop"]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["parcel", "async_parcel", "gentle_parcel", "gentle_async_parcel"])
def test_hooks_context_and_output_are_the_same_on_every_runner(site, runner, handler, counted, nobody_left):
    id = site.app.define(handler, {"to": "Ada"}).dispatch()
    worker = site.work(runner, 1, "--burst")
    assert worker.end().code == 0
    job = site.job(id)
    assert counted(job) == ("done", 0, 0)
    # A job whose child process takes long to start is handed back, and has a higher fence.
    assert job.output == f"attempt 1 of Ada\nfence {job.fence}, True\n"
    assert (len(site.journal("before", id)), len(site.journal("after:succeeded", id))) == (1, 1)
    nobody_left(worker)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["parcel", "gentle_parcel", "gentle_async_parcel"])
def test_after_run_sees_a_failure_too(site, runner, handler, counted):
    id = site.app.define(handler, {"nobody": "Ada"}).dispatch()
    assert site.burst(runner, 1).code == 1
    assert (counted(site.job(id)), site.job(id).failures[-1].type) == (("dead", 1, 0), "KeyError")
    assert len(site.journal("after:failed", id)) == 1


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_the_app_provides_is_opened_and_closed_for_each_job(site, runner, counted):
    ids = [job.enqueue(7) for job in (site.shop.pay, site.shop.pay_async)]
    assert site.burst(runner, 1).code == 0
    assert [site.job(id).output for id in ids] == ["7 into a Till", "7 into a AsyncTill"]
    for id in ids:
        moments = [site.journal(word, id)[0][2] for word in ("opened", "ran", "closed")]
        assert moments == sorted(moments)
        assert len(site.journal("opened", id)) == len(site.journal("closed", id)) == 1


@pytest.mark.parametrize(
    ("runner", "job"), [("inline", "pay"), ("process", "pay"), *((each, "pay_async") for each in RUNNERS)]
)
def test_what_the_app_provides_is_closed_after_a_timeout_too(site, runner, job):
    site.never_kill()
    id = getattr(site.shop, job).using(timeout=0.5).enqueue(7, seconds=60)
    assert site.burst(runner, 1).code == 1
    assert site.job(id).reason == "timeout"
    assert len(site.journal("closed", id)) == 1


HANGING = ["lazy_parcel", "gentle_parcel", "gentle_async_parcel"]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", HANGING)
def test_before_run_counts_towards_the_timeout(site, runner, handler, counted):
    site.never_kill()
    site.set_in_worker("tenure.execution.attempt", _AFTER_RUN_GRACE=NEVER)  # time for `after_run` on a busy machine
    id = site.app.define(handler, {"to": "Ada", "hang": "before_run"}).timeout(0.5).dispatch()
    after = site.shop.quick.enqueue()
    assert site.burst(runner, 1).code == 1
    assert (counted(site.job(id)), site.job(id).reason) == (("dead", 1, 0), "timeout")
    assert "its process was killed" not in site.job(id).failures[-1].message
    assert len(site.journal("after:timed_out", id)) == 1
    assert site.journal("ran", after)[0][1] == site.journal("after:timed_out", id)[0][1]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", HANGING)
def test_an_after_run_that_does_not_end_is_stopped_and_the_outcome_stands(site, runner, handler, counted):
    site.never_kill()
    id = site.app.define(handler, {"to": "Ada", "hang": "after_run"}).timeout(2).dispatch()
    after = site.shop.quick.enqueue()
    done = site.burst(runner, 1)
    assert (done.code, counted(site.job(id)), len(site.journal("before", id))) == (0, ("done", 0, 0), 1)
    assert f"after_run of handler {handler!r} failed; the outcome stands" in done.err
    assert site.journal("ran", after)[0][1] == site.journal("before", id)[0][1]


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_what_jobs_print_at_the_same_time_is_kept_apart(site, runner):
    ids = [site.app.define(handler, {"to": f"{n}"}).dispatch() for n in range(20) for handler in PARCELS]
    assert site.burst(runner, 8).code == 0
    jobs = [site.job(id) for id in ids]  # one that did not start at once was handed back, and has a higher fence
    said = [f"attempt 1 of {n}\nfence {{}}, True\n" for n in range(20) for _ in PARCELS]
    assert [job.output for job in jobs] == [text.format(job.fence) for text, job in zip(said, jobs, strict=True)]


PARCELS = ("parcel", "async_parcel")


@pytest.mark.parametrize("runner", RUNNERS)
def test_jobs_that_meet_an_open_breaker_wait_for_it_on_every_runner(site, runner, counted):
    breaker = site.app.guards.breaker("stripe")
    for _ in range(5):
        with pytest.raises(ConnectionError), breaker.closed():
            raise ConnectionError
    ids = [site.shop.charge.enqueue(), site.shop.charge_later.enqueue()]
    assert site.burst(runner, 1).code == 0
    assert [counted(site.job(id)) for id in ids] == [("parked", 0, 0)] * 2
    breaker.reset()
    assert site.burst(runner, 1).code == 0
    assert [counted(site.job(id)) for id in ids] == [("done", 0, 0)] * 2
    assert [len(site.journal("ran", id)) for id in ids] == [1, 1]


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_job_is_never_done_when_its_code_did_not_run(site, runner, counted):
    awaited, lazy = site.shop.glide_if_awaited.enqueue(), site.shop.glide_lazily.enqueue()
    assert site.burst(runner, 1).code == 1
    assert (counted(site.job(awaited)), site.job(awaited).output) == (("done", 0, 0), "7")
    assert (counted(site.job(lazy)), site.job(lazy).failures[-1].type) == (("dead", 1, 0), "InvalidHandler")
    assert (len(site.journal("ran", awaited)), site.journal("ran", lazy)) == (1, [])


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["parcel", "async_parcel"])
def test_the_traceback_of_a_failure_begins_in_the_code_of_the_user_on_every_runner(site, runner, handler):
    id = site.app.define(handler, {"nobody": "Ada"}).dispatch()
    assert site.burst(runner, 1).code == 1
    first = re.search(r'File "(.*?)"', site.job(id).failures[-1].trace)
    assert first[1] == str(site.folder / "shop.py")


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["order", "order_async"])
def test_the_exception_decides_what_follows_on_every_runner(site, runner, handler):
    errors = ("busy", "lost", "wrong", "failed")
    ids = [site.app.define(handler, {"error": error}).dispatch() for error in errors]
    before = site.app.clock.now()
    assert site.burst(runner, 1).code == 1
    busy, lost, wrong, failed = (site.job(id) for id in ids)
    assert (busy.state, busy.attempts) == ("delayed", 1)
    assert busy.due_at - before >= 4000e6  # its policy has seen the exception
    assert lost.state in ("delayed", "ready")  # its policy left the delay to the app: a slow worker may run it again
    assert [(job.state, job.reason, job.attempts) for job in (wrong, failed)] == [("dead", "gave_up", 1)] * 2
    assert [job.failures[0].type for job in (wrong, failed)] == ["ValueError", "Fail"]
