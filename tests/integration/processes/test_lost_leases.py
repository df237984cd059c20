"""Another worker takes a lease while its job runs: the run is killed, and its worker settles nothing."""

import signal
import time

import pytest

CHILDREN = ["process", "threads", "event_loop"]


@pytest.mark.parametrize("runner", CHILDREN)
def test_a_run_whose_lease_was_lost_is_killed_and_changes_nothing(site, runner, eventually, counted):
    id = site.shop.hold.enqueue()
    worker = site.work(runner, 1, lease=6)  # long enough that a busy worker does not lose it before
    child = site.wait_for("started")
    thief = site.steal(id)
    site.wait_until_gone(child)
    assert counted(site.job(id)) == ("leased", 0, 0)
    assert site.job(id).owner == thief
    site.say("released")
    assert [f"LeaseLost renew {id}"] == eventually(lambda: site.events("LeaseLost"))
    worker.send(signal.SIGTERM)
    assert worker.end().code == 0
    assert site.job(id).owner == thief
    assert site.journal("finished") == []


def test_the_neighbours_of_a_run_that_lost_its_lease_go_back_uncharged(site, counted):
    stolen, neighbour = site.shop.hold.enqueue(), site.shop.hold.enqueue()
    site.work("threads", 2, lease=6)
    child = site.wait_for("started", times=2)
    site.steal(stolen)
    site.wait_until_gone(child)
    site.say("released")
    assert counted(*site.wait_for_end(neighbour)) == ("done", 0, 0)
    assert len(site.journal("started", neighbour)) == 2
    assert counted(site.job(stolen)) == ("leased", 0, 0)


@pytest.mark.timing
def test_a_run_is_killed_before_its_lease_expires_while_the_backend_does_not_answer(site, eventually, counted):
    id = site.shop.hold.enqueue()
    worker = site.work("process", 1, lease=5)  # a second before its end the run is killed
    child = site.wait_for("started")
    with site.holding_up_writers():
        site.wait_until_gone(child)
        assert site.job(id).lease_until > time.time() * 1e6 - 100_000  # the kernel and this test take a moment too
    site.say("released")
    assert counted(*site.wait_for_end(id)) == ("done", 0, 0)
    worker.send(signal.SIGTERM)
    assert worker.end().code == 0


@pytest.mark.timing
@pytest.mark.slow
def test_jobs_that_end_just_when_their_lease_is_renewed_lose_nothing(site, counted):
    ids = [site.shop.sleep.enqueue(seconds=0.3 + number % 10 / 100) for number in range(200)]
    assert site.burst("threads", 20, lease=1).code == 0
    assert {counted(site.job(id)) for id in ids} == {("done", 0, 0)}
    assert len(site.journal("started")) == len(ids)  # a job that was handed back unstarted has a higher fence
    assert site.events("LeaseLost") == []
