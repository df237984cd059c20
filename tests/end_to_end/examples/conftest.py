"""The example projects as their users run them: a web server, a worker and a browser, each a process of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tenure.wire.signing import new_key
from tests.support.browser.fixtures import chromium, plain_tracebacks
from tests.support.browser.visitor import Visitor, visitor
from tests.support.waiting import WAIT_SECONDS, eventually

__all__ = ["chromium"]  # a fixture

pytest_runtest_makereport = plain_tracebacks
EXAMPLES = Path(__file__).parents[3] / "examples"
BIN = Path(sys.executable).parent


class Project:
    """A copy of an example, and the processes that run in it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> Path:
        """Start a command of the virtual environment; returns the file with what it prints."""
        printed = self.folder / f"{len(self.processes)}.log"
        with printed.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [BIN / command[0], *command[1:]],
                    cwd=self.folder, env=self.environment, stdout=output, stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
        return printed

    def serve(self, *command: str) -> str:
        """Start a web server on a free port; returns its address."""
        printed = self.start(*command)
        found = eventually(lambda: re.search(r"http://127\.0\.0\.1:\d+", printed.read_text()) or self._ended(printed))
        assert isinstance(found, re.Match)
        return found[0]

    def _ended(self, printed: Path) -> None:
        assert self.processes[-1].poll() is None, printed.read_text()

    def stop(self) -> list[int]:
        """Stop all as a service manager does; returns how they ended."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        return [process.wait(WAIT_SECONDS) for process in self.processes]


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str, str], Project]]:
    """Makes a project from an example, with its settings or on PostgreSQL: project("flask_signups", "sqlite")."""
    made: list[Project] = []

    def make(name: str, backend: str, variable: str = "TENURE_URL") -> Project:
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("TENURE_", "FLASK_"))}
        environment = {**kept, "PYTHONUNBUFFERED": "1"}
        if backend == "postgresql":
            environment |= {variable: request.getfixturevalue("postgres_url"), "TENURE_KEYS": new_key().dump()}
        made.append(Project(tmp_path / name, environment))
        return made[-1]

    yield make
    for each in made:
        for process in each.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[[str], Visitor]]:
    """Opens addresses in the browser."""
    made: list[Visitor] = []

    def start(address: str) -> Visitor:
        made.append(visitor(chromium, address))
        return made[-1]

    yield start
    for each in made:
        each.context.close()
    assert [problem for each in made for problem in each.problems] == []


@pytest.fixture
def see_dashboard() -> Callable[[Visitor, str], None]:
    """Signs in to the dashboard as the README says, and looks for a job there."""

    def look(browser: Visitor, handler: str) -> None:
        browser.open("/tenure/jobs")
        browser.page.get_by_label("User").fill("ada")
        browser.page.get_by_label("Password").fill("reports-2026")
        browser.page.get_by_role("button", name="Sign in").click()
        browser.page.get_by_role("main").get_by_text(handler).first.wait_for()

    return look
