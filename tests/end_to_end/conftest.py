"""The command line, as processes in a folder of their own or as calls in this process."""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from tenure import Tenure
from tenure.cli.main import cli
from tenure.wire.signing import new_key
from tests.support.command_line import APP, CommandLine


@pytest.fixture
def tenure(tmp_path: Path) -> Iterator[CommandLine]:
    (tmp_path / "shop.py").write_text(APP)
    command_line = CommandLine(tmp_path)
    yield command_line
    command_line.close()


class InProcessCommandLine:
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
def command_line(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InProcessCommandLine]:
    """A command line on each backend that commands are tried on."""
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
    command_line = InProcessCommandLine(module)
    with command_line.app:
        if command_line.app.backend.schema is not None:
            command_line.app.backend.schema.migrate()
        yield command_line
    del sys.modules[module]
