"""What parent and child share: marks in shared memory, and frames over pipes."""

import os
import time
from types import SimpleNamespace

import pytest

from tenure.execution.child.process import JobReports
from tenure.execution.outcome import Outcome
from tenure.execution.protocol import (
    WAKE_LINE,
    FrameReader,
    InvalidFrame,
    Order,
    Report,
    ReportReader,
    decode_orders,
    encode_frame,
    encode_report,
    encode_reports,
)
from tenure.execution.shared_memory import SharedMemory


@pytest.fixture(params=["memfd", "file"])
def marks(request, monkeypatch):
    """The two sides of the same marks; `file` is for systems without memory that has a descriptor."""
    if request.param == "file":
        monkeypatch.delattr(os, "memfd_create")
    parent = SharedMemory(3)
    child = SharedMemory(3, os.dup(parent.descriptor))
    yield parent, child
    child.close()
    parent.close()


def test_what_a_child_marks_is_seen_by_its_parent(marks):
    parent, child = marks
    assert [child.start(0, 7), child.start(2, 9)] == [True, True]
    child.clear(0)
    assert list(parent.running()) == [9]


def test_a_withdrawn_order_does_not_start(marks):
    parent, child = marks
    child.start(0, 7)
    parent.withdraw(8)
    assert [child.start(1, 8), child.start(2, 9)] == [False, True]
    assert list(parent.running()) == [7, 9]


def test_no_order_starts_once_the_leases_of_its_parent_have_ended(marks):
    parent, child = marks
    parent.set_leases_end(time.monotonic() + 60)
    assert child.start(0, 7)
    parent.set_leases_end(time.monotonic() - 0.001)
    assert not child.start(1, 8)
    assert list(parent.running()) == [7]
    parent.set_leases_end(time.monotonic() + 60)  # the parent has renewed them
    assert child.start(1, 9)


def test_a_pulse_and_a_blame_are_seen_by_the_parent(marks):
    parent, child = marks
    before = (parent.last_heartbeat(), parent.blocking_ticket())
    child.beat()
    child.set_blocking_ticket(7)
    assert before == (0.0, 0)
    assert parent.last_heartbeat() > 0
    assert parent.blocking_ticket() == 7


@pytest.fixture
def run_jobs():
    """Reports jobs with these handlers and durations; what the parent notices of each, in order."""
    noticed = []
    orders = SimpleNamespace(
        report=lambda slot, order, outcome: noticed.append(f"woken by {order}"),
        report_quietly=lambda slot, order, outcome: noticed.append("nothing"),
    )
    reports = JobReports(orders, SimpleNamespace(wake_parent=lambda: noticed.append("woken")))

    def run(*jobs, may_wait=True):
        noticed.clear()
        for handler, seconds in jobs:
            attempt = SimpleNamespace(envelope=SimpleNamespace(job=handler))
            reports.before(attempt)
            reports.report(handler, attempt, SimpleNamespace(seconds=seconds), may_wait=may_wait)
        return noticed

    return run


def test_a_short_job_wakes_the_parent_only_if_others_wait_for_that(run_jobs):
    assert run_jobs(("noop", 0.0001), ("noop", 0.0001)) == ["nothing", "nothing"]
    assert run_jobs(("noop", 0.0001), may_wait=False) == ["woken by noop"]


def test_a_job_that_took_long_wakes_the_parent(run_jobs):
    assert run_jobs(("noop", 0.0001), ("noop", 0.002)) == ["nothing", "woken by noop"]


def test_reports_do_not_wait_behind_a_job_that_may_take_long(run_jobs):
    assert run_jobs(("noop", 0.0001), ("new", 0.0001), ("new", 0.0001)) == ["nothing", "woken", "nothing", "nothing"]
    assert run_jobs(("noop", 0.002), ("noop", 0.0001)) == ["woken by noop", "nothing"]


@pytest.mark.parametrize("size", [1, 3, 64, 100_000])
def test_frames_come_out_whole_wherever_the_stream_was_cut(size):
    orders = [Order(number, b"x" * number * 10, 1, 0, 1, None) for number in range(50)]
    stream = b"".join(encode_frame([order]) for order in orders)
    frames = FrameReader()
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [order for piece in pieces for each in frames.feed(piece) for order in decode_orders(each)] == orders


def test_a_stream_that_is_none_of_ours_is_refused():
    with pytest.raises(InvalidFrame):
        list(FrameReader().feed(b"\xff" * 64))


@pytest.fixture
def reports():
    texts = (None, "two\nlines", "ä" * 100, '"quoted"')
    return [
        Report(number, Outcome(kind="succeeded", started=number, seconds=0.1 * number, output=text, cpu=1e-7))
        for number, text in enumerate(texts * 10, start=1)
    ]


@pytest.mark.parametrize("size", [1, 3, 64, 100_000])
def test_reports_come_out_whole_wherever_the_stream_was_cut(size, reports):
    stream = WAKE_LINE + encode_reports(reports[:20]) + WAKE_LINE + b"".join(map(encode_report, reports[20:]))
    reader, found = ReportReader(), []
    for start in range(0, len(stream), size):
        reader.feed(stream[start : start + size], found)
    assert found == reports


@pytest.mark.parametrize("foreign", [b"\xff\n", b"text\n", b"[1]\n", b"{}\n", b"\xff" * 64])
def test_what_other_code_wrote_to_the_pipe_costs_no_report_before_it(foreign, reports):
    found = []
    with pytest.raises(InvalidFrame):
        ReportReader().feed(encode_reports(reports) + foreign, found)
    assert found == reports
