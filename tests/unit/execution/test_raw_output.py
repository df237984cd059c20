"""What a job writes past `sys.stdout` is collected in a file in memory that cannot grow without limit."""

import os

import pytest

from tenure.execution.outcome import Capture
from tenure.execution.raw_output import RawOutput


@pytest.fixture
def raw():
    raw = RawOutput()
    yield raw
    raw.close()


def written_to(raw, data):
    while data:
        data = data[os.write(raw.descriptor, data) :]


def test_the_memory_of_a_flood_is_freed_and_its_length_is_known(raw):
    written_to(raw, b"x" * (16 << 20))
    raw.trim()
    written_to(raw, b"y" * (16 << 20))
    raw.trim()

    assert os.fstat(raw.descriptor).st_blocks * 512 < 1 << 20
    text, dropped = raw.read()
    assert text == "x" * len(text)
    assert len(text) + dropped == 32 << 20


def test_a_flood_after_another_is_freed_too(raw):
    for _ in range(3):
        written_to(raw, b"x" * (16 << 20))
        raw.trim()
        assert os.fstat(raw.descriptor).st_blocks * 512 < 1 << 20
        text, dropped = raw.end()
        assert len(text) + dropped == 16 << 20
        raw.trim()


def test_little_is_left_as_it_is(raw):
    written_to(raw, b"x" * (1 << 20))
    raw.trim()

    assert os.fstat(raw.descriptor).st_blocks * 512 >= 1 << 20


def test_a_character_that_arrives_in_parts_is_read_whole(raw):
    first, second = "☃".encode()[:2], "☃".encode()[2:]
    written_to(raw, first)
    assert raw.read() == ("", 0)
    written_to(raw, second)
    assert raw.end() == ("☃", 0)


def test_half_a_character_does_not_reach_the_next_job(raw):
    written_to(raw, b"a\xe2")
    assert raw.end() == ("a\ufffd", 0)
    written_to(raw, b"b")
    assert raw.end() == ("b", 0)


def test_what_is_written_between_jobs_goes_to_the_console(raw, capfd):
    capture = Capture(raw)
    with raw.installed():
        os.write(1, b"before\n")
        raw.pass_on()
        capture.begin()
        os.write(1, b"job\n")
        printed = capture.take()
        os.write(1, b"after\n")

    assert printed == ("job\n", 0)
    assert capfd.readouterr().out == "before\nafter\n"


def test_a_program_that_empties_the_file_does_no_harm(raw):
    written_to(raw, b"first")
    assert raw.read() == ("first", 0)
    os.ftruncate(raw.descriptor, 0)
    assert raw.read() == ("", 0)
    written_to(raw, b"second")
    assert raw.end() == ("second", 0)
