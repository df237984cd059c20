"""`tenure work --reload` runs the code that was saved last."""

import importlib.util
import signal

import pytest

from tests.support.waiting import STOP_SECONDS

WATCHFILES = """
import time
from pathlib import Path


class PythonFilter:
    pass


def watch(folder, *, watch_filter, **options):
    assert isinstance(watch_filter, PythonFilter)
    saved = Path(folder) / "saved"
    while True:
        time.sleep(0.02)
        if saved.exists():
            saved.unlink()
            yield {("modified", "shop.py")}
        else:
            yield set()
"""


@pytest.fixture
def book(tenure):
    """The notes that jobs have made so far: process, life, version."""

    def read():
        path = tenure.folder / "book"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    return read


def save(tenure, version):
    path = tenure.folder / "shop.py"
    path.write_text(path.read_text().replace('"first"', version))


def test_without_watchfiles_it_says_what_to_install(tenure):
    (tenure.folder / "sitecustomize.py").write_text("import sys\nsys.modules['watchfiles'] = None\n")
    done = tenure("work", "--reload", PYTHONPATH=str(tenure.folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: --reload needs watchfiles, which is not installed: pip install tenure[reload]\n"


def test_a_change_brings_in_the_new_code_and_the_watcher_ends_with_the_worker(tenure, book, eventually):
    (tenure.folder / "watchfiles.py").write_text(WATCHFILES)
    worker = tenure.start("work", "--reload")
    assert worker.stdout.readline().startswith("Working on")
    save(tenure, '"second"')
    (tenure.folder / "saved").touch()
    assert [worker.stdout.readline().split()[0] for _ in range(2)] == ["Working", "Stopped"]
    tenure.enqueue("note")
    eventually(book)
    assert book()[0][2] == "second"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    (tenure.folder / "saved").touch()
    assert worker.communicate()[1].count("\n") == 2  # its end is read when nobody is left who could write


def test_a_change_that_does_not_start_leaves_the_old_code_at_work(tenure, book, eventually):
    (tenure.folder / "watchfiles.py").write_text(WATCHFILES)
    tenure.enqueue("hold")
    worker = tenure.start("work", "--reload", "--runner", "inline")
    eventually((tenure.folder / "started").exists)
    save(tenure, "1 / 0")
    (tenure.folder / "saved").touch()
    told = [worker.stderr.readline() for _ in range(2)]
    assert "ZeroDivisionError: division by zero" in told[0]
    assert told[1].startswith("ERROR: the reload failed, and the old workers stay")
    (tenure.folder / "released").touch()
    eventually((tenure.folder / "finished").exists)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0


@pytest.mark.skipif(importlib.util.find_spec("watchfiles") is None, reason="watchfiles is not installed")
def test_saving_a_python_file_is_noticed(tenure, book, eventually):
    worker = tenure.start("work", "--reload")
    assert worker.stdout.readline().startswith("Working on")

    def is_noticed():
        save(tenure, '"second"')  # again and again, for it may not watch yet
        tenure.enqueue("note")
        return book()[-1:] and book()[-1][2] == "second"

    eventually(is_noticed)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
