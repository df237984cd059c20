"""The progress of commands that take longer than a second."""

import io

import pytest

from tenure.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_a_bar_appears_after_a_second_with_counts_and_rate_and_goes_at_the_end(terminal, clock):
    with ProgressBar("deleted", 2000, stream=terminal, clock=clock) as bar:
        clock.now = 0.9
        bar.show(500)
        assert terminal.getvalue() == ""
        clock.now = 2.0
        bar.show(1000)
        assert terminal.getvalue() == f"\x1b[2Kdeleted {'█' * 15}{'░' * 15} 1000 of 2000, 500/s\r"
    assert terminal.getvalue().endswith("\x1b[2K\r")


def test_without_a_total_only_the_count_is_shown(terminal, clock):
    bar = ProgressBar("deleted", None, stream=terminal, clock=clock)
    clock.now = 2.0
    bar.show(1000)
    assert "deleted 1000 …, 500/s" in terminal.getvalue()


@pytest.mark.parametrize(("stream", "hidden"), [(io.StringIO(), False), (Terminal(), True)])
def test_nothing_is_shown_to_programs(monkeypatch, clock, stream, hidden):
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBar("deleted", 2000, stream=stream, hidden=hidden, clock=clock) as bar:
        clock.now = 2.0
        bar.show(1000)
    assert stream.getvalue() == ""
