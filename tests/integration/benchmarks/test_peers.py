"""The benchmark adapter of Tenure runs the rows that need a worker, on a SQLite file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers import catalogue
from benchmarks.peers.rows import ROWS, Budget
from benchmarks.peers.servers import Servers, servers
from benchmarks.peers.stand import stand

BUDGET = Budget(jobs=300, seconds=20.0)  # so many fit in however slow the machine is


@pytest.fixture
def running() -> Iterator[Servers]:
    with servers() as made:
        yield made


@pytest.mark.parametrize("row", ["asyncio", "drain-sync", "bulk-list-1kB", "drain-list-10kB", "drain-results"])
def test_a_row_measures_tenure_on_sqlite(row: str, running: Servers, tmp_path: Path) -> None:
    (peer,) = catalogue.select(catalogue.load(), "tenure-sqlite-default")
    with stand(peer, running, 400, tmp_path) as place:
        numbers = ROWS[row].measure(place, BUDGET)
    assert numbers
    assert numbers["jobs/s"] > 0
    assert numbers.get("run twice", 0) == 0
    assert numbers.get("results kept %", 100) == 100
