"""The rows that measure Tenure alone run with a few jobs."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from benchmarks import bench, claims, history, latency, scale
from benchmarks.places import server_of
from benchmarks.rows import ROWS
from tests.support.servers import Server


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(latency, "ROUNDS", 1)
    monkeypatch.setattr(claims, "TRIES", 1)


def test_payloads_are_texts_and_lists_of_two_sizes() -> None:
    numbers = ROWS["payloads"](40)
    assert {name for name in numbers if name.endswith(" jobs/s")} == {
        *("no payload jobs/s", "text of 1 kB jobs/s", "text of 10 kB jobs/s"),
        *("list of 1 kB jobs/s", "list of 10 kB jobs/s"),
    }
    assert all(value > 0 for name, value in numbers.items() if "worker CPU" not in name)


def test_results_are_compared_with_none() -> None:
    numbers = ROWS["results"](40)
    assert numbers["ratio"] == numbers["with results jobs/s"] / numbers["without results jobs/s"]


def test_the_default_runner_stands_beside_inline_with_the_cpu_of_all_its_processes() -> None:
    numbers = ROWS["runners"](40)
    difference = numbers["process worker CPU µs"] - numbers["inline worker CPU µs"]
    assert numbers["process minus inline, CPU µs"] == difference


@pytest.mark.parametrize("row", ["latency", "delayed", "loaded"])
def test_latencies_are_told_for_inline_and_for_the_default_runner(row: str) -> None:
    numbers = ROWS[row](20)
    for runner in ("inline", "process"):
        assert 0 < numbers[f"{runner} p50 ms"] <= numbers[f"{runner} p99 ms"]


def test_the_pages_of_a_claim_are_counted_in_a_file() -> None:
    numbers = ROWS["claims"](3000)
    assert numbers["1000 waiting, pages"] > 1
    assert 0.5 < numbers["ratio"] < 2


@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
def test_the_buffers_of_a_claim_are_counted_on_a_server(server: str, own_server: Callable[[str], Server]) -> None:
    with server_of(own_server(server).url):
        numbers = ROWS["claims"](2000)
    assert numbers["1000 waiting, pages"] > 100
    assert 0.5 < numbers["ratio"] < 2


def test_the_costs_behind_the_page_on_scale_can_be_measured() -> None:
    costs = scale.measured(40, ("sqlite", "redis"))["servers"]
    assert set(costs["sqlite"]) == {"producer", "worker", "children"}
    assert set(costs["redis"]) == {"producer", "worker", "children", "store", "settle"}


def test_a_drain_is_compared_with_one_beside_ended_jobs_in_a_file() -> None:
    numbers = ROWS["growth"](600)
    assert numbers["ratio"] == numbers["full jobs/s"] / numbers["none jobs/s"]
    assert 100 < numbers["bytes an ended job, payload erased"] < numbers["bytes an ended job"] < 5000
    assert numbers["free MB, after trimming"] > 0


def test_a_drain_is_compared_with_one_beside_ended_jobs_on_a_server(postgres_url: str) -> None:
    with server_of(postgres_url):
        numbers = ROWS["growth"](600)
    assert 100 < numbers["bytes an ended job, payload erased"] < numbers["bytes an ended job"] < 5000
    vacuums = numbers["automatic vacuums, after trimming"] - numbers["automatic vacuums, after the drains"]
    assert numbers["dead rows, after trimming"] + vacuums > 0  # a vacuum of the server removes dead rows


@pytest.mark.parametrize("server", [None, "postgres_url", "mariadb_url"])
def test_commands_are_timed_on_a_long_history(
    server: str | None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(history, "_ROUNDS", 1)
    monkeypatch.setattr(history, "ENDED", 60)
    monkeypatch.setattr(history, "DEAD", 20)
    with nullcontext() if server is None else server_of(request.getfixturevalue(server)):
        numbers = ROWS["history"](1)
    assert {"health", "jobs list", "dead list", "app.statistics"} <= set(numbers)
    assert all(milliseconds > 0 for milliseconds in numbers.values())
