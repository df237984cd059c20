"""The command line as a person meets it: real processes in a folder of their own, with an app and a database."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from tenure import Tenure
from tenure.backends.upkeep import Migratable
from tenure.cli.main import cli
from tenure.wire.signing import new_key

PATIENCE = 30.0

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
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment = {**kept, "TENURE_URL": f"sqlite:///{folder}/jobs.db", "TENURE_APP": "shop:app", "TZ": "UTC"}

    def without(self, *names: str) -> "CommandLine":
        """The same with these variables unset."""
        for name in names:
            del self.environment[name]
        return self

    def __call__(self, *arguments: str, answer: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tenure", *arguments],
            cwd=self.folder, env={**self.environment, **environment}, input=answer,
            capture_output=True, text=True, timeout=PATIENCE,
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
            cwd=self.folder, env=self.environment, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE,
        ).stdout  # fmt: skip

    def enqueue(self, *arguments: str) -> str:
        return str(self.json("enqueue", *arguments)["id"])

    def state(self, id: str) -> str:
        return str(self.json("jobs", "show", id)["state"])

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


@pytest.fixture
def tenure(tmp_path: Path) -> Iterator[CommandLine]:
    (tmp_path / "shop.py").write_text(APP)
    command_line = CommandLine(tmp_path)
    yield command_line
    command_line.close()


class Desk:
    """The commands in this process, which is quicker, and the app that they find, to set the scene with."""

    def __init__(self, module: str) -> None:
        self.location = f"{module}:app"
        self.app: Tenure = importlib.import_module(module).app

    def __call__(self, *arguments: str, answer: str = "", **environment: str) -> Result:
        given = {"TENURE_APP": self.location, **environment}
        with patch.object(sys, "path", list(sys.path)):
            return CliRunner().invoke(cli, arguments, input=answer, env=given, prog_name="tenure")

    def json(self, *arguments: str, exit_code: int = 0, **environment: str) -> Any:
        done = self(*arguments, "--json", **environment)
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)

    def module(self, app: str) -> str:
        """Where another app is, without handlers."""
        name = f"other_{token_hex(4)}"
        Path(f"{name}.py").write_text(f"from tenure import Tenure\n\napp = {app}\n")
        return f"{name}:app"

    def work(self) -> None:
        """Run what is ready."""
        self.app.worker(burst=True).run()


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk on each backend that commands are tried on."""
    places = {"postgresql": "postgres_url", "redis": "redis_url", "beanstalk": "beanstalk_url"}
    is_server = request.param in places
    url = request.getfixturevalue(places[request.param]) if is_server else f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "beanstalk":  # the whole server, which other tests use too
        url += f"?prefix=test-{token_hex(6)}."
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TENURE_URL", url)
    monkeypatch.setenv("TENURE_KEYS", new_key("usual").dump())
    monkeypatch.setenv("TENURE_ENVIRONMENT", "development")  # the servers of tests need not be durable
    module = f"shop_{token_hex(4)}"
    (tmp_path / f"{module}.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    desk = Desk(module)
    with desk.app:
        if isinstance(desk.app.backend, Migratable):
            desk.app.backend.migrate()
        yield desk
    del sys.modules[module]


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until a condition holds, and fails when it does not come to hold."""

    def wait(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < give_up, "this never came to be"
            time.sleep(0.005)  # asks another process, which sends no signal

    return wait
