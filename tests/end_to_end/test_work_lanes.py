"""`tenure work` with the lanes of the settings."""

import signal

import pytest

from tests.support.waiting import STOP_SECONDS

LANES = """
[lanes.quick]
queues = ["emails", "default"]
runner = "inline"

[lanes.bulk]
queues = ["reports"]
runner = "threads"
concurrency = 2

[lanes.slow]
queues = ["films"]
concurrency = 1
"""


@pytest.fixture
def lanes(tenure):
    (tenure.folder / "tenure.toml").write_text(LANES)
    return tenure


@pytest.fixture
def one_each(lanes):
    """A job on each queue, by its queue."""
    return {queue: lanes.enqueue("note", "--queue", queue) for queue in ("default", "reports", "films")}


def states(tenure, jobs):
    return {queue: tenure.state(id) for queue, id in jobs.items()}


def test_without_arguments_all_lanes_of_the_settings_are_served(lanes, one_each):
    done = lanes("work", "--burst")
    assert (done.returncode, done.stderr) == (0, "")
    assert states(lanes, one_each) == {"default": "done", "reports": "done", "films": "done"}
    assert done.stdout.splitlines()[0].startswith(
        "Working on quick: emails, default (inline × 1); bulk: reports (threads × 2); slow: films (process × 1) at "
    )
    places = [line.split()[0] for line in (lanes.folder / "book").read_text().splitlines()]
    assert len(set(places)) == 3


def test_only_the_named_lanes_are_served(lanes, one_each):
    assert lanes("work", "--burst", "--lane", "bulk", "--lane", "slow").returncode == 0
    assert states(lanes, one_each) == {"default": "ready", "reports": "done", "films": "done"}


def test_queues_in_the_arguments_make_a_lane_of_their_own(lanes, one_each):
    assert lanes("work", "default", "films", "--burst", "--runner", "inline").returncode == 0
    assert states(lanes, one_each) == {"default": "done", "reports": "ready", "films": "done"}


def test_the_lanes_of_a_worker_are_shown(lanes, eventually):
    lanes("db", "migrate")
    worker = lanes.start("work", "--lane", "bulk", "--lane", "quick")
    eventually(lambda: lanes.json("workers"))
    (found,) = lanes.json("workers")
    assert found["queues"] == ["emails", "default", "reports"]
    assert found["lanes"] == [
        {"name": "quick", "queues": ["emails", "default"], "runner": "inline", "concurrency": 1, "held": 0},
        {"name": "bulk", "queues": ["reports"], "runner": "threads", "concurrency": 2, "held": 0},
    ]
    shown = lanes("workers").stdout.splitlines()[1].split("\t")
    assert shown[1] == "quick: emails, default (inline × 1); bulk: reports (threads × 2)"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0


@pytest.mark.parametrize("queue", ["default", "reports", "films"])
def test_a_job_that_outlasts_the_stop_grace_is_handed_back_in_every_lane(lanes, eventually, queue):
    id = lanes.enqueue("hold", "--queue", queue)
    worker = lanes.start("work", "--stop-grace", "0.2")
    eventually((lanes.folder / "started").exists)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    job = lanes.json("jobs", "show", id)
    assert (job["state"], job["attempts"], job["crashes"], job["owner"]) == ("ready", 0, 0, None)


def test_a_worker_told_to_drain_empties_every_lane(lanes, one_each, eventually):
    held = lanes.enqueue("hold", "--queue", "films")
    worker = lanes.start("work")
    eventually((lanes.folder / "started").exists)
    worker.send_signal(signal.SIGUSR1)
    assert worker.stderr.readline() == "Draining: stopping once nothing is ready.\n"
    (lanes.folder / "released").touch()
    assert worker.wait(STOP_SECONDS) == 0
    assert {*states(lanes, {**one_each, "held": held}).values()} == {"done"}


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        (["--lane", "bulk", "--lane", "slow"], "Reloading: fresh child processes take over.\n"),
        ([], "Reloading once the running job is done.\n"),  # one is inline: only a new process has new code
    ],
)
def test_a_hangup_brings_new_code_into_every_lane(lanes, one_each, eventually, chosen, says):
    worker = lanes.start("work", *chosen)
    book = lanes.folder / "book"
    eventually(lambda: book.exists() and len(book.read_text().splitlines()) >= 2)
    source = lanes.folder / "shop.py"
    source.write_text(source.read_text().replace('"first"', '"second"'))
    worker.send_signal(signal.SIGHUP)
    assert worker.stderr.readline() == says

    def is_new():
        for queue in ("reports", "films"):
            lanes.enqueue("note", "--queue", queue)
        return book.read_text().count("second") >= 2

    eventually(is_new)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--lane", "bulky"], "there is no lane 'bulky'; did you mean 'bulk'?"),
        (["--lane", "bulk", "default"], "--lane names a lane with its own queues, runner and concurrency"),
        (["--lane", "bulk", "--concurrency", "3"], "--lane names a lane with its own queues, runner and concurrency"),
        (["--runner", "inline"], "the lanes of the settings have their own runner and concurrency"),
    ],
)
def test_what_contradicts_the_lanes_is_refused_in_one_line(lanes, arguments, says):
    done = lanes("work", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


def test_lanes_that_share_a_queue_are_refused_in_one_line(lanes):
    done = lanes("work", TENURE_LANES__BULK__QUEUES="reports,films")
    assert (done.returncode, done.stdout) == (2, "")
    assert "queue 'films' is in the lanes 'bulk' and 'slow'; a queue is served by one lane" in done.stderr


def test_workers_of_a_supervisor_get_the_lanes_it_was_given(lanes, one_each):
    done = lanes("work", "--burst", "--processes", "2", "--lane", "bulk", "--lane", "slow")
    assert done.returncode == 0
    assert states(lanes, one_each) == {"default": "ready", "reports": "done", "films": "done"}


def test_without_a_module_to_import_it_says_what_to_do(tenure):
    done = tenure("work", TENURE_URL="memory://")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "cannot work on a backend that lives in this process" in done.stderr
    assert "choose the runner inline, or a backend that processes share" in done.stderr
