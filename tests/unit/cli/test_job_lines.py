"""The lines of a worker on a terminal: what they say, when they stop, and when they come back."""

import io
from collections import Counter

import pytest

from tenure.cli.job_lines import FAILURES_PER_SECOND, JOBS_PER_SECOND, JobLines, SecondCount, format_job
from tenure.cli.work_progress import TerminalJobs
from tenure.events import Run, Settlement, Status

ID = "019a9250-7c3e-7a1f-8a90-0123456789ab"


def job(status=Status.ACKED, reason=None, error=None, handler="greet", **given):
    run = Run(handler, 0, 0.0123) if handler else None
    return Settlement(given.get("id", ID), "mail", status, given.get("attempt", 1), reason, False, run, error)


def lines_of(settlement, width=80, **options):
    return format_job(settlement, "12:00:00", width, str, **{"colours": False, **options})


@pytest.mark.parametrize(
    ("settlement", "line"),
    [
        (job(), "12:00:00 done      019a9250-7c3e-7a1f 12.3 ms  greet"),
        (job(id="order-7"), "12:00:00 done      order-7 12.3 ms  greet"),
        (
            job(Status.REQUEUED, "failed", "OSError: off", attempt=2),
            "12:00:00 retried   019a9250-7c3e-7a1f 12.3 ms  greet: attempt 2: OSError: off",
        ),
        (
            job(Status.DEAD_LETTERED, "retries_exhausted", "OSError: off"),
            "12:00:00 dead      019a9250-7c3e-7a1f 12.3 ms  greet: OSError: off",
        ),
        (
            job(Status.DEAD_LETTERED, "timeout", "Deadline: 3 s"),
            "12:00:00 dead      019a9250-7c3e-7a1f 12.3 ms  greet: timeout: Deadline: 3 s",
        ),
        (
            job(Status.POSTPONED, "rate mail", handler=None),
            "12:00:00 postponed 019a9250-7c3e-7a1f          queue mail: rate mail",
        ),
    ],
)
def test_a_line_says_when_and_how_a_job_ended(settlement, line):
    assert lines_of(settlement) == [line]


def test_an_error_that_does_not_fit_gets_a_line_of_its_own_which_is_cut():
    first, second = lines_of(job(Status.DEAD_LETTERED, "retries_exhausted", f"OSError: {'x' * 200}"))
    assert first.endswith("12.3 ms  greet")
    assert (len(second), second[:18], second[-1]) == (80, "         OSError: ", "…")


def test_an_error_cannot_control_the_terminal_and_shows_no_secret():
    settlement = job(Status.DEAD_LETTERED, None, "OSError: \x1b[2J\nDone password=swordfish")
    (line,) = format_job(settlement, "12:00:00", 200, lambda text: text.replace("swordfish", "***"), colours=False)
    assert line.endswith("greet: OSError: \\x1b[2J Done password=***")


@pytest.mark.parametrize(
    ("status", "code"), [(Status.ACKED, "32"), (Status.REQUEUED, "33"), (Status.DEAD_LETTERED, "31")]
)
def test_the_state_has_a_colour(status, code):
    assert f"\x1b[{code}m {'done' if status is Status.ACKED else ''}" in lines_of(job(status), colours=True)[0]


def test_a_job_that_waits_is_dim():
    assert lines_of(job(Status.POSTPONED), colours=True)[0].startswith("\x1b[2m12:00:00 postponed")


@pytest.fixture
def written():
    return []


@pytest.fixture
def lines(written):
    return JobLines(written.append, colours=False)


def test_few_jobs_get_a_line_each(lines, written):
    lines.add([job()] * JOBS_PER_SECOND, now=0)
    assert (len(written), lines.are_too_many) == (JOBS_PER_SECOND, False)


def test_from_too_many_jobs_in_a_second_on_jobs_are_only_counted(lines, written):
    lines.add([job()] * JOBS_PER_SECOND, now=0)
    lines.add([job()] * 5, now=0.5)
    assert (len(written), lines.are_too_many) == (JOBS_PER_SECOND, True)


def test_lines_come_back_after_a_second_with_few_jobs_and_say_how_many_were_not_shown(lines, written):
    lines.add([job()] * 30, now=0)
    lines.add([job()] * 3 + [job(Status.CANCELLED)], now=1.1)
    assert (written, lines.are_too_many) == ([], True)
    lines.tick(now=2.2)
    assert (written, lines.are_too_many) == (["… 33 done, 1 cancelled"], False)
    lines.add([job()], now=2.3)
    assert len(written) == 2


def test_lines_come_back_by_themselves_when_no_job_ends(lines, written):
    lines.add([job()] * 30, now=0)
    lines.tick(now=1.2)
    lines.tick(now=2.4)
    assert (written, lines.are_too_many) == (["… 30 done"], False)


def test_failures_are_shown_while_other_jobs_are_counted(lines, written):
    lines.add([*[job()] * 30, job(Status.REQUEUED, "failed", "OSError: off")], now=0)
    assert [line[9:16] for line in written] == ["retried"]


def test_a_flood_of_failures_is_cut_each_second_and_counted(lines, written):
    flood = [job(Status.DEAD_LETTERED, None, "OSError: off")] * (FAILURES_PER_SECOND + 312)
    lines.add(flood, now=0)
    assert len(written) == FAILURES_PER_SECOND
    lines.add(flood, now=1.1)
    assert written[FAILURES_PER_SECOND] == "… and 312 more failures"
    assert len(written) == 2 * FAILURES_PER_SECOND + 1
    lines.close()
    assert written[-1] == "… and 312 more failures"


def test_jobs_that_go_back_unstarted_are_neither_shown_nor_counted(lines, written):
    unstarted = job(Status.POSTPONED, "unstarted", handler=None)
    lines.add([unstarted], now=0)
    lines.add([*[job()] * 30, unstarted], now=0.5)
    lines.tick(now=2.7)
    assert written == ["… 30 done"]


def test_a_second_that_followed_no_other_has_no_previous_count():
    count = SecondCount()
    count.add(30, now=0)
    count.add(1, now=2.5)
    assert (count.count, count.previous) == (1, 0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return Terminal()


def test_a_summary_takes_the_place_of_the_lines_and_goes_with_the_rate(terminal):
    jobs = TerminalJobs(Counter({Status.ACKED: 30}), terminal, is_shared=False)
    jobs.lines.add([job()] * 30, now=0)
    jobs.redraw(now=0.2)
    assert terminal.getvalue() == "\x1b[2K30 done, 0 retried, 0 dead, 0/s\r"
    jobs.redraw(now=1.2)
    jobs.redraw(now=2.4)
    assert terminal.getvalue().endswith("\r\x1b[2K… 30 done\n\x1b[2K\r")


def test_workers_that_share_a_terminal_print_the_summary_every_few_seconds(terminal):
    jobs = TerminalJobs(Counter({Status.ACKED: 30}), terminal, is_shared=True)
    for now in range(8):
        jobs.lines.add([job()] * 30, now=now)
        jobs.redraw(now=now)
    assert terminal.getvalue() == "30 done, 0 retried, 0 dead, 0/s\n" * 2
