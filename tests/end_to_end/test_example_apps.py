"""The example script runs as its users would run it; the web applications are in the folder `examples`."""

import os
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the example keeps its database; no setting of the machine reaches it."""
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_sqlalchemy_example_stores_orders_and_jobs_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / "sqlalchemy_orders" / "orders.py"), run_name="__main__")

    assert capsys.readouterr().out.splitlines() == [
        "a unicorn is out of stock",
        "a lamp is on its way",
        "1 a lamp shipped",
    ]
