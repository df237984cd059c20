"""The command line as a user runs it: real processes in a folder with an app and a database."""

import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner

from tenure.cli.main import cli
from tests.support.waiting import WAIT_SECONDS

APP = """
import os
import secrets
import signal
import time
from pathlib import Path

from tenure import Context, Tenure

VERSION = "first"
LIFE = secrets.token_hex(4)  # new whenever this is imported

app = Tenure()
here = Path(__file__).parent


@app.job
def add(a: int, b: int = 1) -> int:
    return a + b


@app.job
def fail(text: str = "no luck") -> None:
    raise ValueError(text)


@app.job(max_retries=1, backoff="none")
def stumble() -> None:
    raise ValueError("twice")


@app.job
def hold() -> None:
    (here / "started").touch()
    while not (here / "released").exists():
        time.sleep(0.005)
    (here / "finished").touch()


@app.job
def count(ctx: Context) -> None:
    ctx.progress(40, 100)
    hold()


@app.job
def note() -> None:
    with open(here / "book", "a") as book:
        book.write(f"{os.getpid()} {LIFE} {VERSION}\\n")


@app.job
def sleep() -> None:
    (here / "started").touch()
    time.sleep(600)


@app.job
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Echo:
    def handle(self, payload: dict) -> dict:
        return payload


app.register("echo", Echo)
"""


class CommandLine:
    """`tenure` in a folder; every process it starts is gone when the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        hidden = ("TENURE_", "FORCE_COLOR", "COLUMNS")
        journal = {"JOURNAL_STREAM": "8:1"}  # log lines without their time, which tests cannot foresee
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        own = {"TENURE_URL": f"sqlite:///{folder}/jobs.db", "TENURE_APP": "shop:app", "TZ": "UTC"}
        self.environment = {**kept, **journal, **own}

    def without(self, *names: str) -> "CommandLine":
        """The same with these variables unset."""
        for name in names:
            del self.environment[name]
        return self

    def __call__(self, *arguments: str, answer: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tenure", *arguments],
            cwd=self.folder, env={**self.environment, **environment}, input=answer,
            capture_output=True, text=True, timeout=WAIT_SECONDS,
        )  # fmt: skip

    def json(self, *arguments: str, **environment: str) -> Any:
        """What a command that must succeed says in JSON."""
        done = self(*arguments, "--json", **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def python(self, *arguments: str) -> str:
        """Run a script of the folder, or code after `-c`; what it prints."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder, env=self.environment, check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS,
        ).stdout  # fmt: skip

    def enqueue(self, *arguments: str) -> str:
        """The id of a new job. The command runs in this process: starting another takes longer than most tests."""
        return str(self._here("enqueue", *arguments)["id"])

    def state(self, id: str) -> str:
        return str(self._here("jobs", "show", id)["state"])

    def _here(self, *arguments: str) -> Any:
        """What a command that must succeed prints as JSON, run in this process without leaving the app's modules."""
        before = set(sys.modules)
        unset = {name: None for name in os.environ if name.startswith("TENURE_")}
        given = {name: value for name, value in self.environment.items() if name.startswith("TENURE_")}
        importlib.invalidate_caches()
        with chdir(self.folder), patch.object(sys, "path", list(sys.path)):
            done = CliRunner().invoke(cli, [*arguments, "--json"], env=unset | given, prog_name="tenure")
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(self.folder):
                del sys.modules[name]
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tenure", *arguments],
            cwd=self.folder, env={**self.environment, **environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            for pid in _session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.communicate()


def _session(leader: int) -> list[int]:
    """The leader and whatever it started, by the session that `start` gave it."""
    found = [leader]
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getsid(int(entry.name)) == leader:
                found.append(int(entry.name))
    return found
