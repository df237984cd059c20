"""The scheduler loop goes on through failures of its backend until it is stopped."""

import pytest

from tenure.cron.loop import InlineTickRunner, SchedulerLoop
from tenure.errors import BackendUnavailable


class Metronome:
    """A scheduler whose beats are scripted; the last one stops its keeper."""

    def __init__(self, *beats):
        self.beats = list(beats)
        self.keeper = SchedulerLoop(self, InlineTickRunner(None))

    def beat(self):
        beat = self.beats.pop(0)
        if not self.beats:
            self.keeper.stop()
        if isinstance(beat, Exception):
            raise beat
        return beat


def test_an_outage_is_outlived():
    metronome = Metronome(0.0, BackendUnavailable("gone"), BackendUnavailable("still gone"), 0.0)
    metronome.keeper.run()
    assert metronome.beats == []
    assert metronome.keeper.ready.is_set()


def test_it_is_ready_after_its_first_tick():
    metronome = Metronome(BackendUnavailable("gone"))
    metronome.keeper.run()
    assert not metronome.keeper.ready.is_set()


def test_a_bug_is_not_outlived():
    with pytest.raises(ZeroDivisionError):
        Metronome(0.0, ZeroDivisionError()).keeper.run()


def test_it_tells_how_long_it_has_been_silent():
    metronome = Metronome(0.0)
    metronome.keeper.run()
    assert 0 <= metronome.keeper.silence() < 60
