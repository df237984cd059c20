"""The example script runs as its users would run it; the web applications are in the folder `examples`."""

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
BIN = Path(sys.executable).parent
pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the example keeps its database; no setting of the machine reaches it."""
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def example(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of an example, imported as its users import it: by name, from its folder."""
    name = request.param
    path = next(EXAMPLES.glob(f"*/{name}.py"))
    monkeypatch.syspath_prepend(str(path.parent))
    module = __import__(name)
    yield module
    module.jobs.close()
    del sys.modules[name]


def work(module: ModuleType, *options: str) -> str:
    """Let a worker of the command line run the jobs that are ready."""
    location = f"{Path(module.__file__ or '').stem}:jobs"
    environment = {**os.environ, "PYTHONPATH": str(Path(module.__file__ or "").parent)}
    command = [BIN / "tenure", "--app", location, "work", "--burst", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: a job has died
    return done.stdout + done.stderr


def test_the_sqlalchemy_example_stores_orders_and_jobs_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / "sqlalchemy_orders" / "orders.py"), run_name="__main__")

    assert capsys.readouterr().out.splitlines() == [
        "a unicorn is out of stock",
        "a lamp is on its way",
        "thank you for order 1",
        "1 a lamp shipped",
    ]


@pytest.mark.parametrize("example", ["orders"], indirect=True)
def test_jobs_of_the_sqlalchemy_example_have_sessions_in_the_processes_of_a_worker(example: ModuleType) -> None:
    example.jobs.migrate()
    example.Table.metadata.create_all(example.engine)
    handle = example.place_order("a lamp")

    work(example)

    assert example.jobs.result(handle) == "a lamp is on its way"
    assert [job.state for job in example.jobs.jobs.find(handler="thank")] == ["done"]
    with example.sessions() as session:
        assert session.get(example.Order, 1).shipped
    example.engine.dispose()
