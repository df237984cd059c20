"""What a handler prints is captured where it runs, while it runs, and nowhere else."""

# ruff: noqa: T201 - printing is what is tested

import asyncio
import sys
import threading

import pytest

from tenure.execution.outcome import MAX_OUTPUT, Capture


@pytest.fixture
def printed_by():
    """Runs code between begin and take, and gives what was kept."""

    def run(code):
        capture = Capture()
        with capture.installed():
            capture.begin()
            code()
            return capture.take().text

    return run


def test_what_is_printed_while_a_job_runs_is_kept(printed_by, capsys):
    assert printed_by(lambda: print("hello", 7)) == "hello 7\n"
    assert capsys.readouterr().out == ""


def test_lines_written_together_are_kept(printed_by):
    assert printed_by(lambda: sys.stdout.writelines(["a\n", "b\n"])) == "a\nb\n"


def test_bytes_are_refused_as_a_text_stream_refuses_them(printed_by):
    def write_bytes():
        with pytest.raises(TypeError, match="must be str, not bytes"):
            sys.stdout.write(b"raw")
        print("text")

    assert printed_by(write_bytes) == "text\n"


def test_what_is_printed_before_and_after_passes_through(capsys):
    capture = Capture()
    with capture.installed():
        print("before")
        capture.begin()
        print("kept")
        taken = capture.take().text
        print("after")

    assert taken == "kept\n"
    assert capsys.readouterr().out == "before\nafter\n"


def test_other_threads_pass_through(printed_by, capsys):
    def code():
        other = threading.Thread(target=lambda: print("other"))
        other.start()
        other.join()
        print("mine")

    assert printed_by(code) == "mine\n"
    assert capsys.readouterr().out == "other\n"


def test_what_tasks_of_a_coroutine_print_is_kept(printed_by):
    async def both():
        await asyncio.gather(asyncio.to_thread(int), say("a"), say("b"))

    async def say(text):
        print(text)

    assert printed_by(lambda: asyncio.run(both())) == "a\nb\n"


def test_each_attempt_is_taken_for_itself(printed_by):
    printed_by(lambda: print("first"))

    assert printed_by(lambda: print("second")) == "second\n"


def test_a_flood_is_bounded(printed_by):
    kept = printed_by(lambda: [print("a" * 10_000) for _ in range(100)])

    assert MAX_OUTPUT <= len(kept) <= MAX_OUTPUT + 20_000


def test_the_stream_is_given_back():
    before = sys.stdout

    with Capture().installed():
        pass

    assert sys.stdout is before


def test_lanes_that_end_in_any_order_give_the_stream_back(capsys):
    before = sys.stdout
    first, second = Capture(), Capture()
    lanes = [first.installed(), second.installed()]
    for lane in lanes:
        lane.__enter__()
    lanes[0].__exit__(None, None, None)
    second.begin()
    print("kept")
    taken = second.take().text
    print("after")
    lanes[1].__exit__(None, None, None)

    assert sys.stdout is before
    assert (taken, capsys.readouterr().out) == ("kept\n", "after\n")


def test_a_stream_that_other_code_put_there_stays(monkeypatch):
    monkeypatch.setattr(sys, "stdout", sys.stdout)

    with Capture().installed():
        sys.stdout = sys.stderr

    assert sys.stdout is sys.stderr


def test_the_stand_in_has_the_attributes_of_the_stream():
    with Capture().installed():
        encoding = sys.stdout.encoding
        sys.stdout.flush()

    assert encoding.lower() == "utf-8"


def test_what_is_dropped_of_a_long_text_is_counted():
    capture = Capture()
    with capture.installed():
        capture.begin()
        for _ in range(100):
            print("x" * 999)
        text, dropped = capture.take()
        capture.begin()
        nothing = capture.take()

    assert len(text) < 2 * MAX_OUTPUT
    assert len(text) + dropped == 100_000
    assert nothing == ("", 0)
