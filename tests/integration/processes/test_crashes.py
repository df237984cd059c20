"""A child dies while a job runs: the job is charged a crash and runs again, and other jobs are charged nothing."""

import signal

import pytest

from tests.support.waiting import WAIT_SECONDS

CHILDREN = ["process", "threads", "event_loop"]
LIVES_ON = "closed its pipes or wrote invalid data to them, and was killed"
# How a job kills its process, what is told of it, and how many seconds a worker gives that process to end by itself:
# many where it does, because a busy machine takes long.
DEATHS = [
    ("exit 0", "exited with code 0", WAIT_SECONDS),
    ("exit 1", "exited with code 1", WAIT_SECONDS),
    ("fall", "was killed by SIGSEGV", WAIT_SECONDS),
    ("abort", "was killed by SIGABRT", WAIT_SECONDS),
    ("kill", "was killed by SIGKILL", WAIT_SECONDS),
    ("close", LIVES_ON, 0.5),
    ("garble", LIVES_ON, 0.5),
    ("garble quietly", LIVES_ON, 0.5),
]


@pytest.mark.parametrize("runner", CHILDREN)
def test_the_job_of_a_killed_child_runs_again_at_once_and_is_charged_a_crash(site, runner, eventually, counted):
    id = site.shop.hold.enqueue()
    worker = site.work(runner, lease=2 * WAIT_SECONDS)
    killed = site.wait_for("started")
    worker.send(signal.SIGKILL, killed)
    eventually(lambda: len(site.journal("started", id)) == 2)  # without a lease having to expire
    site.say("released")
    [ended] = site.wait_for_end(id)
    assert counted(ended) == ("done", 0, 1)
    assert len(site.journal("finished", id)) == 1
    assert killed not in worker.family()


def test_a_neighbour_in_a_process_of_its_own_is_neither_disturbed_nor_charged(site, counted):
    victim = site.shop.hold.enqueue()
    worker = site.work("process", 2)
    killed = site.wait_for("started", victim)
    neighbour = site.shop.hold.enqueue()
    site.wait_for("started", neighbour)
    worker.send(signal.SIGKILL, killed)
    site.wait_for("started", victim, times=2)
    site.say("released")
    ended = site.wait_for_end(victim, neighbour)
    assert [counted(each) for each in ended] == [("done", 0, 1), ("done", 0, 0)]
    assert len(site.journal("started", neighbour)) == 1


@pytest.mark.parametrize(("how", "evidence", "exit_timeout"), DEATHS)
def test_a_job_that_kills_its_process_every_time_is_dead_as_a_crash_loop_with_the_evidence(
    site, how, evidence, exit_timeout, counted, nobody_left
):
    site.set_in_worker("tenure.execution.parent.runner", _EXIT_TIMEOUT=exit_timeout)
    site.set_in_worker("tenure.execution.parent.child_process", _LAST_LINES_SECONDS=WAIT_SECONDS)
    id = site.shop.die.enqueue(how=how)
    others = [site.shop.quick.enqueue() for _ in range(10)]
    worker = site.work("process", 2, "--burst")
    assert worker.end().code == 1
    dead = site.job(id)
    assert (counted(dead), dead.reason) == (("dead", 0, 4), "crash_loop")
    assert len(site.journal("started", id)) == 4
    failure = dead.failures[-1]
    assert (len(dead.failures), failure.type) == (4, "Crashed")
    assert failure.worker.count(":") == 2
    assert evidence in failure.message
    assert "peak memory" in failure.message
    assert f"about to {how}" in failure.trace
    assert {counted(site.job(other)) for other in others} == {("done", 0, 0)}
    nobody_left(worker)


@pytest.mark.parametrize("how", [how for how, _, _ in DEATHS])
def test_a_crash_among_many_short_jobs_is_charged_to_the_one_that_ran_and_no_other_runs_twice(site, how, counted):
    before, after = ([site.shop.step.build() for _ in range(200)] for _ in range(2))
    ids = site.app.enqueue_many([*before, site.shop.step.build(do=how), *after])
    assert site.burst("process", 1).code == 0
    culprit = ids.pop(len(before))
    assert counted(site.job(culprit)) == ("done", 0, 1)
    assert {counted(site.job(id)) for id in ids} == {("done", 0, 0)}
    assert sorted(id for id, _, _ in site.journal("nothing")) == sorted(ids)


def test_jobs_behind_one_in_a_child_that_is_killed_are_charged_nothing(site, counted):
    ids = site.app.enqueue_many(site.shop.step.build(do="hold" if i == 200 else "nothing") for i in range(400))
    worker = site.work("process", 1)
    pid = site.wait_for("hold")
    worker.send(signal.SIGKILL, pid)
    ended = site.wait_for_end(*ids)
    assert [counted(each) for each in ended] == [("done", 0, int(i == 200)) for i in range(400)]
    assert len(site.journal("nothing")) == 399


@pytest.mark.parametrize("runner", ["threads", "event_loop"])
def test_a_crash_loop_ends_where_jobs_share_a_process_too(site, runner, counted):
    id = site.shop.die.enqueue(how="fall")
    others = [site.shop.quick.enqueue() for _ in range(10)]
    assert site.burst(runner, 4).code == 1
    assert (counted(site.job(id)), site.job(id).reason) == (("dead", 0, 4), "crash_loop")
    assert {counted(site.job(other)) for other in others} == {("done", 0, 0)}


@pytest.mark.parametrize("runner", CHILDREN)
def test_a_job_that_survives_after_two_crashes_is_done(site, runner, counted):
    id = site.shop.die.enqueue(how="exit 1", times=2)
    assert site.burst(runner).code == 0
    assert counted(site.job(id)) == ("done", 0, 2)
    assert site.job(id).output == "survived"


@pytest.mark.parametrize("runner", [*CHILDREN, "inline"])
def test_a_handler_that_calls_sys_exit_has_failed_and_not_crashed(site, runner, counted):
    ids = [site.shop.leave.enqueue(code=code) for code in (0, 3)]
    after = site.shop.quick.enqueue()
    assert site.burst(runner, 1).code == 1
    for id in ids:
        assert (counted(site.job(id)), site.job(id).failures[-1].type) == (("dead", 1, 0), "SystemExit")
    assert counted(site.job(after)) == ("done", 0, 0)
    assert {line[1] for line in site.journal("started")} == {line[1] for line in site.journal("ran")}


@pytest.mark.parametrize("runner", [*CHILDREN, "inline"])
def test_a_handler_that_raises_what_is_no_exception_has_failed_and_not_crashed(site, runner, counted):
    id, after = site.shop.raise_base.enqueue(), site.shop.quick.enqueue()
    assert site.burst(runner, 1).code == 1
    assert counted(site.job(id)) == ("dead", 1, 0)
    assert counted(site.job(after)) == ("done", 0, 0)


def test_a_handler_that_meets_its_memory_limit_has_failed_and_the_next_job_is_not_limited(site, counted):
    id, after = site.shop.outgrow.enqueue(), site.shop.quick.enqueue()
    assert site.burst("process", 1).code == 1
    assert (counted(site.job(id)), site.job(id).failures[-1].type) == (("dead", 1, 0), "MemoryError")
    assert counted(site.job(after)) == ("done", 0, 0)
    assert site.journal("ran", after)[0][1] != site.journal("started", id)[0][1]


def test_the_memory_a_killed_job_had_filled_is_in_the_evidence(site, counted):
    id = site.shop.hog.enqueue(megabytes=150)
    assert site.burst("process", 1).code == 1
    dead = site.job(id)
    assert (counted(dead), dead.reason) == (("dead", 0, 1), "crash_loop")
    peak = int(dead.failures[-1].message.partition("peak memory ")[2].split()[0])
    assert 150 <= peak < 400


@pytest.mark.parametrize("runner", ["threads", "event_loop"])
def test_of_several_jobs_in_a_dying_process_only_the_culprit_is_charged_once_it_runs_alone(
    site, runner, eventually, counted
):
    innocent = [site.shop.hold.enqueue() for _ in range(3)]
    culprit = site.shop.die_in_company.enqueue()
    worker = site.work(runner, 4)
    for id in (*innocent, culprit):
        site.wait_for("started", id)
    site.say("enough")
    eventually(lambda: all(site.job(id).failures for id in innocent))
    site.say("released")
    ended = site.wait_for_end(*innocent, culprit)
    assert [counted(each) for each in ended] == [("done", 0, 0)] * 3 + [("done", 0, 1)]
    assert len(site.journal("started", culprit)) in (3, 4, 5)  # free while the others still run, charged alone, done
    assert [each.failures[0].type for each in ended] == ["Crashed"] * 4
    worker.send(signal.SIGTERM)
    assert worker.end().code == 0


def test_a_child_killed_while_it_waits_is_replaced(site, eventually, counted):
    worker = site.work("process", 1)
    first = site.shop.quick.enqueue()
    idle = site.wait_for("ran", first)
    site.wait_for_end(first)
    worker.send(signal.SIGKILL, idle)
    second = site.shop.quick.enqueue()
    [ended] = site.wait_for_end(second)
    assert counted(ended) == ("done", 0, 0)
    assert site.journal("ran", second)[0][1] != idle
