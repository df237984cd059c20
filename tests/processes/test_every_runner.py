"""What a handler sees and says is the same on every runner."""

import pytest

RUNNERS = ["inline", "process", "threads", "event_loop"]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["parcel", "async_parcel"])
def test_hooks_context_and_output_are_the_same_on_every_runner(site, runner, handler, counted, nobody_left):
    id = site.app.define(handler, {"to": "Ada"}).dispatch()
    worker = site.work(runner, 1, "--burst")
    assert worker.end().code == 0
    assert counted(site.job(id)) == ("done", 0, 0)
    assert site.job(id).output == "attempt 1 of Ada\nfence 1, True\n"
    assert (len(site.journal("before", id)), len(site.journal("after:succeeded", id))) == (1, 1)
    nobody_left(worker)


@pytest.mark.parametrize("runner", RUNNERS)
def test_after_run_sees_a_failure_too(site, runner, counted):
    id = site.app.define("parcel", {"nobody": "Ada"}).dispatch()
    assert site.burst(runner, 1).code == 1
    assert (counted(site.job(id)), site.job(id).failures[-1].type) == (("dead", 1, 0), "KeyError")
    assert len(site.journal("after:failed", id)) == 1


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_what_jobs_print_at_the_same_time_is_kept_apart(site, runner):
    ids = [site.app.define(handler, {"to": f"{n}"}).dispatch() for n in range(20) for handler in PARCELS]
    assert site.burst(runner, 8).code == 0
    said = [site.job(id).output for id in ids]
    assert said == [f"attempt 1 of {n}\nfence 1, True\n" for n in range(20) for _ in PARCELS]


PARCELS = ("parcel", "async_parcel")
