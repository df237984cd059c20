"""Children that cannot start: the worker reports the cause and gives up, and the jobs stay unchanged."""

import pytest

CHILDREN = ["process", "threads", "event_loop"]


@pytest.mark.parametrize("runner", CHILDREN)
def test_an_app_that_fails_to_import_in_the_child_ends_the_worker_with_the_cause(site, runner, counted, nobody_left):
    ids = [site.shop.quick.enqueue() for _ in range(3)]
    site.break_children("raise RuntimeError('no such licence')")
    worker = site.work(runner)
    ended = worker.end()
    assert ended.code == 2
    assert "children in a row died" in ended.err
    assert "no such licence" in ended.err
    assert {counted(site.job(id)) for id in ids} == {("ready", 0, 0)}
    assert {site.job(id).owner for id in ids} == {None}
    nobody_left(worker)


def test_a_child_that_dies_as_soon_as_it_is_ready_ends_the_worker_too(site, counted, nobody_left):
    id = site.shop.quick.using(delay=3600).enqueue()
    site.set_in_worker("tenure.execution.parent.child_pool", _STARTUP_SECONDS=60.0)  # a busy machine takes long
    site.break_children("import atexit, os, threading; threading.Timer(0.3, os._exit, [7]).start()")
    worker = site.work("process", 1)
    ended = worker.end()
    assert ended.code == 2
    assert "exited with code 7" in ended.err
    assert counted(site.job(id)) == ("delayed", 0, 0)
    nobody_left(worker)


def test_a_child_that_fails_to_start_once_is_started_again(site, counted):
    id = site.shop.quick.enqueue()
    site.break_children("if not (here / 'tried').exists(): (here / 'tried').touch(); os._exit(3)")
    assert site.burst("process", 1).code == 0
    assert counted(site.job(id)) == ("done", 0, 0)


def test_a_handler_that_only_the_worker_knows_waits_and_costs_nothing(site, counted):
    site.break_children("app.registry._wrapped.pop('quick')")
    id = site.shop.quick.enqueue()
    assert site.burst("process", 1).code == 0
    assert counted(site.job(id)) == ("delayed", 0, 0)
