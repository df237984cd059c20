"""Guards across real workers: locks survive kills and are renewed for as long as a job runs."""

import signal
import time

import pytest


@pytest.mark.slow
def test_the_lock_of_a_killed_worker_is_freed_and_its_job_takes_it_again_with_a_higher_fence(site):
    first = site.shop.hold.using(single_instance=True, name="alone").enqueue()
    second = site.shop.quick.using(single_instance=True, name="alone", delay=0.5).enqueue(number=2)
    worker = site.work("process", 1, lease=2)
    site.wait_for("started", first)
    worker.send(signal.SIGKILL)
    worker.end()
    site.say("released")
    site.work("process", 2, lease=2)
    ended = {record.id: record for record in site.wait_for_end(first, second)}
    assert {record.state for record in ended.values()} == {"done"}
    assert ended[first].fence >= 2
    assert (ended[second].attempts, ended[second].crashes) == (0, 0)


@pytest.mark.timing
@pytest.mark.slow
def test_a_lock_is_kept_for_as_long_as_its_job_runs_however_short_the_lease(site):
    """A lock whose time is guessed lets a second one in."""
    first = site.shop.hold.using(single_instance=True, name="alone").enqueue()
    site.work("process", 2, lease=1)
    site.wait_for("started", first)
    second = site.shop.hold.using(single_instance=True, name="alone").enqueue()
    time.sleep(4)  # several leases long, in which nothing should happen
    assert len(site.journal("started", second)) == 0
    site.say("released")
    assert {record.state for record in site.wait_for_end(first, second)} == {"done"}
