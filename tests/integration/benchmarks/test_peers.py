"""The benchmark adapter of Tenure runs the rows that need a worker, on a SQLite file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers import catalogue, rows
from benchmarks.peers.rows import ROWS, Budget
from benchmarks.peers.servers import Servers, servers
from benchmarks.peers.stand import stand
from tests.support.waiting import WAIT_SECONDS

BUDGET = Budget(jobs=300, seconds=20.0)  # so many fit in however slow the machine is


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives workers more time than a busy machine needs."""
    monkeypatch.setattr(Budget, "patience", WAIT_SECONDS)
    monkeypatch.setattr(rows, "KEPT_TRIES", 100)


@pytest.fixture
def running() -> Iterator[Servers]:
    with servers() as made:
        yield made


@pytest.mark.parametrize("row", ["asyncio", "drain-sync", "bulk-list-1kB", "drain-list-10kB", "drain-results"])
def test_a_row_measures_tenure_on_sqlite(row: str, running: Servers, tmp_path: Path) -> None:
    (peer,) = catalogue.select(catalogue.load(), "tenure-sqlite-default")
    with stand(peer, running, 600, tmp_path) as place:
        numbers = ROWS[row].measure(place, BUDGET)
    assert numbers
    assert numbers["jobs/s"] > 0
    assert numbers.get("run twice", 0) == 0
    assert numbers.get("results kept %", 100) == 100


@pytest.mark.parametrize("row", ["latency", "delayed", "half-load"])
def test_a_row_measures_how_late_jobs_of_tenure_start(row: str, running: Servers, tmp_path: Path) -> None:
    (peer,) = catalogue.select(catalogue.load(), "tenure-sqlite")[:1]
    with stand(peer, running, 1000, tmp_path) as place:
        numbers = ROWS[row].measure(place, Budget(jobs=300, seconds=1.0))
    assert numbers
    assert 0 < numbers["p50 ms"] <= numbers["p99 ms"]
    assert numbers.get("not started", 0) == 0
    assert numbers.get("load jobs/s", 1) > 0
