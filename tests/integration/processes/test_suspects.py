"""A suspect runs under a parent of its own, beside the other jobs; the jobs of a killed worker run again soon."""

import os
import signal

import pytest

from tests.support.waiting import eventually

QUICKLY = {"lease": 3}


@pytest.mark.slow
def test_a_job_that_always_kills_its_worker_is_dead_as_a_crash_loop_after_a_known_number_of_runs(site, counted):
    for _ in range(3):
        site.work("process", 1, **QUICKLY, TENURE_SUSPECT_AFTER="2")
    id = site.shop.kill_worker.using(max_crashes=1).enqueue()
    (ended,) = site.wait_for_end(id)
    assert (counted(ended), ended.reason) == (("dead", 0, 2), "crash_loop")
    assert len(site.journal("started", id)) == 4  # two that cost nothing, then max_crashes and one more alone
    assert [worker.process.poll() for worker in site.workers].count(None) == 1


@pytest.mark.slow
def test_fresh_jobs_start_while_a_suspect_runs_and_another_waits(site, counted):
    suspects = [site.make_suspect(site.shop.hold), site.make_suspect(site.shop.hold)]
    busy = site.shop.hold.enqueue()
    worker = site.work("process", 2, **QUICKLY)
    site.wait_for("started", suspects[0])
    site.wait_for("started", busy)
    fresh = [site.shop.quick.enqueue(number=number) for number in range(5)]
    assert {counted(each) for each in site.wait_for_end(*fresh)} == {("done", 0, 0)}
    assert site.journal("started", suspects[1]) == []
    (alone,) = site.suspect_workers()
    assert os.getsid(alone) != os.getsid(worker.pid)
    site.say("released")
    assert {counted(each) for each in site.wait_for_end(busy, *suspects)} == {("done", 0, 0)}
    site.wait_until_gone(alone)


@pytest.mark.slow
def test_the_death_of_a_worker_costs_the_suspect_beside_it_nothing(site, counted):
    suspect = site.make_suspect(site.shop.hold)
    worker = site.work("process", 1, **QUICKLY)
    site.wait_for("started", suspect)
    worker.send(signal.SIGKILL)
    worker.process.wait()
    site.say("released")
    (ended,) = site.wait_for_end(suspect)
    assert (counted(ended), ended.fence) == (("done", 0, 0), 2)


@pytest.mark.slow
def test_a_worker_that_stops_waits_for_the_suspect_beside_it(site, counted):
    suspect = site.make_suspect(site.shop.hold)
    worker = site.work("process", 1, **QUICKLY)
    site.wait_for("started", suspect)
    worker.send(signal.SIGTERM)
    eventually(lambda: worker.children() == site.suspect_workers())  # its own lane has ended
    site.say("released")
    assert worker.end().code == 0
    assert (counted(site.job(suspect)), site.suspect_workers()) == (("done", 0, 0), [])


@pytest.mark.slow
def test_a_worker_that_must_stop_at_once_has_the_suspect_handed_back(site):
    suspect = site.make_suspect(site.shop.hold)
    worker = site.work("process", 1, **QUICKLY)
    site.wait_for("started", suspect)
    worker.stop_at_once()
    assert worker.end().code == 0
    record = site.job(suspect)
    assert (record.state, record.waits_for, record.crashes) == ("parked", "suspect:default", 0)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["inline", "process", "threads"])
def test_a_burst_runs_the_suspects_before_it_ends(site, runner, counted):
    suspect = site.make_suspect(site.shop.quick)
    assert site.burst(runner, 1).code == 0
    assert counted(site.job(suspect)) == ("done", 0, 0)


@pytest.mark.slow
def test_a_job_that_died_as_a_suspect_is_seen_in_the_exit_code_of_a_burst(site):
    site.make_suspect(site.shop.fail)
    assert site.burst("process", 1).code == 1


@pytest.mark.slow
def test_the_jobs_of_a_killed_worker_run_again_while_every_other_worker_is_busy(site, nobody_left):
    lost = site.shop.hold.enqueue()
    worker = site.work("process", 1, **QUICKLY)
    site.wait_for("started", lost)
    others = [site.work("process", 2, **QUICKLY) for _ in range(2)]
    busy = [site.shop.hold.enqueue() for _ in others]
    for id in busy:
        site.wait_for("started", id)
    worker.send(signal.SIGKILL)
    site.wait_for("started", lost, times=2)
    fresh = site.shop.quick.enqueue()
    site.wait_for_end(fresh)
    assert {site.job(id).state for id in busy} == {"leased"}


@pytest.mark.slow
def test_500_jobs_of_a_killed_worker_run_again_together(site):
    ids = site.app.enqueue_many(site.shop.linger.build() for _ in range(500))
    worker = site.work("event_loop", 500, lease=3)
    site.wait_for("started", times=500)
    worker.send(signal.SIGKILL)
    worker.process.wait()
    site.work("event_loop", 500, lease=3)
    site.wait_for("started", times=1000)
    assert len({id for id, _, _ in site.journal("started")}) == len(ids) == 500
    eventually(lambda: site.counts() == {"leased": 500})
    site.say("released")
    eventually(lambda: site.counts() == {"done": 500})
