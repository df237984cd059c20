"""What a worker tells about itself: the jobs that run the longest, and its memory."""

import os

import msgspec
import pytest

from tenure import Job
from tenure.backends.records import LaneRecord, RunningJob, WorkerRecord
from tenure.execution.runner import resident_bytes
from tenure.worker.description import MAX_RUNNING, longest_running
from tenure.worker.lane import Lane

MAIL = Lane(queues=("mail",), name="quick")
NOW = 1_893_456_000_000_000


@pytest.fixture
def attempt(attempt_of):
    return attempt_of(Job(handler="ping", queue="mail", name="nightly"))


def test_a_running_job_tells_what_it_is_where_it_runs_and_when_it_started(attempt):
    assert longest_running([(MAIL, attempt, 98.5)], NOW, 100.0) == (
        RunningJob(id="id-1", handler="ping", name="nightly", queue="mail", lane="quick", started_at=NOW - 1_500_000),
    )


def test_the_jobs_that_have_run_the_longest_are_told_and_the_longest_is_the_first(attempt):
    starts = [50.0, 10.0, *(60.0 + number for number in range(MAX_RUNNING))]
    found = longest_running([(MAIL, attempt, start) for start in starts], NOW, 100.0)
    assert len(found) == MAX_RUNNING
    assert [NOW - each.started_at for each in found[:3]] == [90_000_000, 50_000_000, 40_000_000]


def test_jobs_that_started_at_once_are_told_too(attempt):
    assert len(longest_running([(MAIL, attempt, 1.0), (MAIL, attempt, 1.0)], NOW, 2.0)) == 2


def test_a_process_that_has_ended_holds_no_memory():
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    assert (resident_bytes(child), resident_bytes(os.getpid()) > 1 << 20) == (0, True)


def test_a_record_of_an_older_release_is_read():
    old = WorkerRecord(
        id="host:1:a", host="host", pid=1, queues=("mail",), runner="inline", concurrency=1, started_at=1, seen_at=2,
        lanes=(LaneRecord(name="quick", queues=("mail",), runner="inline", concurrency=1),),
    )  # fmt: skip
    fields = msgspec.to_builtins(old)
    for new in ("memory", "peak_child", "max_memory", "running", "draining_since", "draining_reason"):
        del fields[new]
    del fields["lanes"][0]["held"]
    assert msgspec.json.decode(msgspec.json.encode(fields), type=WorkerRecord) == old
