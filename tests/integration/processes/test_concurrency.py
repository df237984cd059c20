"""Slow jobs do not delay others, and many jobs that only wait run at once."""

import signal

import pytest

from tenure.execution.parent.child_process import ChildProcess


def test_a_child_gets_many_short_jobs_at_once_and_wakes_its_parent_for_many_at_once(site, monkeypatch):
    monkeypatch.chdir(site.folder)
    calls = {"send": [], "read_reports": []}
    for name, real in [(name, getattr(ChildProcess, name)) for name in calls]:
        monkeypatch.setattr(ChildProcess, name, noting(real, calls[name]))
    site.app.enqueue_many(site.shop.nothing.build() for _ in range(5000))
    site.app.worker(runner="process", concurrency=1, burst=True, location="shop:app").run()
    reads = [len(reports) for _, reports in calls["read_reports"] if reports]
    sends = [unsent for unsent, _ in calls["send"] if unsent]
    assert sum(reads) == 5000
    assert len(reads) < 5000 / 10
    assert len(sends) < 5000 / 10


def noting(real, notes):
    """Does as the real method of a child does, and notes whether there was something to send, and the answer."""

    def call(child):
        unsent = bool(child._unsent)
        answer = real(child)
        notes.append((unsent, answer))
        return answer

    return call


def test_short_jobs_behind_a_slow_one_are_run_by_the_other_child(site, counted):
    warm = [site.shop.quick.enqueue() for _ in range(300)]  # so fast that a child is given many ahead
    slow = site.shop.hold.enqueue()
    short = [site.shop.quick.enqueue() for _ in range(300)]
    worker = site.work("process", 2)
    site.wait_for("started", slow)
    site.wait_for("ran", times=600)
    assert site.job(slow).state == "leased"
    site.say("released")
    assert {counted(each) for each in site.wait_for_end(slow, *warm, *short)} == {("done", 0, 0)}
    assert len(site.journal("ran")) == 600
    worker.send(signal.SIGTERM)
    assert worker.end().code == 0


def test_short_jobs_before_a_slow_one_are_settled_while_it_runs(site):
    jobs = [*(site.shop.quick.build() for _ in range(1000)), site.shop.hold.build()]
    *_, slow = site.app.enqueue_many(jobs)
    site.work("process", 1)
    site.wait_for("started", slow)
    # On a machine that pauses, jobs that did not start for 250 ms go back, and the slow one overtakes them.
    ran = {id for id, _, _ in site.journal("ran")}
    assert ran
    site.wait_for_end(*ran)
    assert site.job(slow).state == "leased"


def test_an_idle_child_gets_new_jobs_while_another_runs_a_job_for_longer_than_expected(site):
    warm = [site.shop.quick.enqueue() for _ in range(300)]
    slow = site.shop.hold.enqueue()
    behind = [site.shop.quick.enqueue() for _ in range(300)]
    site.work("process", 2)
    site.wait_for("started", slow)
    site.wait_for_end(*warm, *behind)
    for _ in range(3):
        site.wait_for_end(site.shop.quick.enqueue())
    assert site.job(slow).state == "leased"


def test_short_jobs_behind_a_full_worker_are_run_by_another_worker(site):
    holds = [site.shop.hold.enqueue() for _ in range(2)]
    full = site.work("process", 2)
    site.wait_for("started", times=2)
    short = [site.shop.quick.enqueue() for _ in range(50)]
    site.work("process", 1)
    site.wait_for_end(*short)
    assert {site.job(id).state for id in holds} == {"leased"}
    assert not {pid for _, pid, _ in site.journal("ran")} & set(full.family())


def test_one_slow_job_on_threads_does_not_slow_the_others(site):
    site.never_hand_back()
    slow = site.shop.hold.enqueue()
    short = [site.shop.quick.enqueue() for _ in range(500)]
    site.work("threads", 4)
    site.wait_for("started", slow)
    site.wait_for_end(*short)
    assert len(site.journal("ran")) == 500
    assert {site.job(id).fence for id in short} == {1}


def test_hundreds_of_awaits_are_in_flight_at_once(site, counted):
    site.never_hand_back()
    ids = site.app.enqueue_many(site.shop.meet.build(count=500) for _ in range(500))
    assert site.burst("event_loop", 500).code == 0
    assert {(counted(site.job(id)), site.job(id).fence) for id in ids} == {(("done", 0, 0), 1)}


@pytest.mark.slow
def test_sync_jobs_that_wait_for_a_thread_are_not_timed_while_they_wait(site, counted):
    ids = [site.shop.sleep.using(timeout=5).enqueue(seconds=1.2) for _ in range(70)]
    assert site.burst("event_loop", 70).code == 0
    assert {counted(site.job(id)) for id in ids} == {("done", 0, 0)}
