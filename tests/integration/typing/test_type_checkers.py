"""Type checkers accept right calls and report each wrong call where it is made."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def reported_by_mypy(file, cache):
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {int(line) for line in re.findall(rf"{re.escape(file.name)}:(\d+): error:", done.stdout)}, done.stdout


def reported_by_pyright(file, cache):
    command = [sys.executable, "-m", "pyright", "--outputjson", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    found = json.loads(told)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}, told


@pytest.fixture(params=[reported_by_mypy, reported_by_pyright], ids=["mypy", "pyright"])
def reported(request):
    """The lines that a checker reports in a file, and all it said."""
    cache = request.config.cache.mkdir("typing")  # with a folder for each file: processes must not share one
    return lambda name: request.param(HERE / name, cache / Path(name).stem)


def test_right_calls_are_accepted(reported):
    lines, told = reported("right_calls.py")

    assert lines == set(), told


def test_wrong_calls_are_reported_where_they_are_made_and_nothing_else_is(reported):
    marked = {
        number
        for number, line in enumerate((HERE / "wrong_calls.py").read_text().splitlines(), 1)
        if line.endswith("# error")
    }

    lines, told = reported("wrong_calls.py")

    assert lines == marked, told
