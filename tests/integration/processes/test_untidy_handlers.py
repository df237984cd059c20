"""Handlers leave signals, files or processes behind: the next job finds a clean process, and no job is lost."""

import signal

import pytest


@pytest.mark.parametrize("runner", ["inline", "process", "threads"])
@pytest.mark.parametrize("returns", [False, True])
def test_a_handler_that_forks_reports_once_and_the_copy_runs_nothing(site, runner, returns, counted, nobody_left):
    ids = [site.shop.fork.enqueue(returns=returns) for _ in range(3)]
    after = [site.shop.quick.enqueue() for _ in range(50)]
    worker = site.work(runner, 1, "--burst")
    assert worker.end().code == 0
    assert {(counted(site.job(id)), site.job(id).output) for id in ids} == {(("done", 0, 0), "the parent returned")}
    assert {counted(site.job(id)) for id in after} == {("done", 0, 0)}
    assert len(site.journal("ran")) == 50
    nobody_left(worker)


def test_a_copy_that_holds_the_pipes_open_neither_keeps_its_parent_alive_nor_hangs_the_worker(
    site, counted, nobody_left
):
    id = site.shop.fork_and_stay.using(timeout=0.5).enqueue()
    killed = site.shop.fork_and_stay.enqueue()
    worker = site.work("process", 1)
    [ended] = site.wait_for_end(id)
    assert (counted(ended), ended.reason) == (("dead", 1, 0), "timeout")
    pid = site.wait_for("started", killed)
    worker.send(signal.SIGKILL, pid)
    site.wait_for("started", killed, times=2)
    worker.stop_at_once()
    assert worker.end().code == 0
    assert counted(site.job(killed)) == ("ready", 0, 1)
    nobody_left(worker)


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_a_handler_can_stop_the_programs_and_the_copies_it_has_started(site, runner):
    id = site.shop.stop_what_it_started.enqueue()
    assert site.burst(runner, 1).code == 0
    assert site.job(id).output == str([-signal.SIGTERM, -signal.SIGTERM]).replace(" ", "")


def test_a_timeout_still_stops_a_job_after_another_has_changed_the_signal_handlers(site, counted):
    site.never_kill()
    messy, late = site.shop.change_signals.enqueue(), site.shop.spin.using(timeout=0.5).enqueue()
    slow = site.shop.sleep.enqueue(seconds=0.7)
    assert site.burst("process", 1).code == 1
    assert counted(site.job(messy)) == ("done", 0, 0)
    assert (counted(site.job(late)), site.job(late).reason) == (("dead", 1, 0), "timeout")
    assert counted(site.job(slow)) == ("done", 0, 0)
    assert len({pid for _, pid, _ in site.journal("started")}) == 1  # nobody had to be killed


def test_a_job_finds_the_folder_and_the_mask_of_the_worker_whatever_the_one_before_did(site):
    before, messy, after = (handler.enqueue() for handler in (site.shop.where, site.shop.move_away, site.shop.where))
    assert site.burst("process", 1).code == 0
    assert site.job(messy).state == "done"
    assert site.job(after).output == site.job(before).output


def test_a_job_finds_the_process_as_the_first_job_did_whatever_the_one_before_changed(site):
    changes = list(site.shop.CHANGES)
    first = site.shop.describe.enqueue()
    later = [(site.shop.change.enqueue(what=what), site.shop.describe.enqueue()) for what in changes]
    assert site.burst("process", 1).code == 0
    assert {site.job(changed).state for changed, _ in later} == {"done"}
    found = {what: site.job(described).output for what, (_, described) in zip(changes, later, strict=True)}
    assert found == dict.fromkeys(changes, site.job(first).output)


@pytest.mark.parametrize("descriptors", [True, False])
def test_a_job_finds_its_streams_open_after_another_has_closed_them(site, descriptors, counted):
    messy = site.shop.close_streams.enqueue(descriptors=descriptors)
    after = [site.shop.shout.enqueue() for _ in range(3)]
    ended = site.burst("process", 1)
    assert ended.code == 0
    assert counted(site.job(messy)) == ("done", 0, 0)
    assert {(counted(site.job(id)), site.job(id).output) for id in after} == {(("done", 0, 0), "shouted\nraw\nsaid\n")}
    assert ended.err.count("heard") == 3


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_a_flood_of_output_is_passed_on_and_harms_nobody(site, runner, counted):
    ids = [*(site.shop.flood.enqueue(megabytes=4) for _ in range(2)), site.shop.quick.enqueue()]
    ended = site.burst(runner, 2)
    assert ended.code == 0
    assert {counted(site.job(id)) for id in ids} == {("done", 0, 0)}
    assert ended.err.count("x\n") == 2 * 4 * 1024
    assert len(site.job(ids[0]).output) < 100_000


def test_a_job_that_floods_a_stream_which_nobody_reads_is_stopped_and_holds_up_no_other(site, counted):
    id = site.shop.flood.using(timeout=1).enqueue(megabytes=4)
    worker = site.work("process", 2)
    site.wait_for("started", id)
    others = [site.shop.quick.enqueue() for _ in range(20)]
    *ended, dead = site.wait_for_end(*others, id)
    assert {counted(each) for each in ended} == {("done", 0, 0)}
    assert (counted(dead), dead.reason) == (("dead", 1, 0), "timeout")
    assert worker.process.poll() is None


def test_bytes_of_a_character_that_arrive_apart_are_passed_on_whole(site):
    site.shop.mumble.enqueue()
    assert "é" * 5 in site.burst("process", 1).err


IN_TURN = "printed\nprogram\nwritten\nto the stream\nlines\nnaïve ☃ buffered\n"


def test_all_that_a_job_writes_to_standard_output_is_in_its_record_in_order(site):
    ids = [site.shop.speak_in_turn.enqueue() for _ in range(20)]
    quiet = site.shop.quick.enqueue(number=5)
    ended = site.burst("process", 2)
    assert ended.code == 0
    assert {site.job(id).output for id in ids} == {IN_TURN}
    assert site.job(quiet).output == "5"
    assert "program" not in ended.out


@pytest.mark.parametrize("runner", ["inline", "threads", "event_loop"])
def test_what_programs_write_goes_to_the_console_where_jobs_share_a_process(site, runner):
    id = site.shop.speak_in_turn.enqueue()
    ended = site.burst(runner, 1)
    assert ended.code == 0
    assert site.job(id).output == "printed\nlines\n"
    assert all(word in ended.out for word in ("program", "written", "to the stream", "naïve ☃ buffered"))


def test_a_program_that_writes_without_end_is_kept_in_part_and_counted(site, counted):
    ids = [site.shop.flood_by_program.enqueue(megabytes=64), site.shop.speak_in_turn.enqueue()]
    assert site.burst("process", 1).code == 0
    assert [counted(site.job(id)) for id in ids] == [("done", 0, 0)] * 2
    flood = site.job(ids[0])
    assert flood.run.output_length == 64 << 20
    assert flood.output == f"{'x' * 65_536}… ({64 << 20} characters in all)"
    assert site.job(ids[1]).output == IN_TURN


def test_what_the_app_prints_outside_jobs_stays_on_the_console(site):
    site.break_children("import atexit; print('imported'); atexit.register(print, 'left')")
    id = site.shop.speak_in_turn.enqueue()
    ended = site.burst("process", 1)
    assert site.job(id).output == IN_TURN
    assert ended.out.index("imported") < ended.out.index("left")
