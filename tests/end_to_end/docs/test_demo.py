"""The demo runs to its end, prints what it should, and leaves no files behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[3] / "examples" / "demo"
STORY = [
    r"Stopped after \S+ s: 5003 done, 3 retried, 1 dead(?:, \d+ postponed)?",  # a slow machine hands jobs back
    r"\S+\s+default\s+print_invoice\s.*OSError: the printer is out of paper.*",
    r"replayed 1",
    r"Stopped after \S+ s: 1 done, 0 retried, 0 dead",
    r"bulk\s+5000(?:\s+0){3}\s.*",
    r"default\s+4\s+4\s+3\s+1\s.*",
    r"greet\s+done\s+1\s+\"Hello, Ada!\"",
    r"greet\s+done\s+1\s+waited \d+ s, \"Hello, Grace!\"",
    r"fetch_rates\s+done\s+3\s+2 × ConnectionError, .*",
    r"print_invoice\s+done\s+3\s+2 × OSError, a replay, .*",
    r"A day of the shop: 14\d\d jobs in 6 queues\.",
    r"The dashboard is at http://127\.0\.0\.1:\d+/",
]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_demo_tells_its_story_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "TENURE_URL": "sqlite:////nowhere/jobs.db"}

    done = subprocess.run([DEMO / "run.sh"], env=environment, capture_output=True, text=True, timeout=200, check=False)

    told = [line for line in done.stdout.splitlines() if any(re.fullmatch(pattern, line) for pattern in STORY)]
    assert done.returncode == 0, done.stderr
    assert len(told) == len(STORY), done.stdout
    assert list(tmp_path.iterdir()) == []
