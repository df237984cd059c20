"""The verdict of the speed check, from given figures."""

import sys
from pathlib import Path

import pytest

from benchmarks import check
from benchmarks.check import measure, slowed

BASELINE = {"memory path": 10.0, "memory inline": 10.0, "memory open": 2.0}


def test_a_path_may_lose_fifteen_percent_and_no_more() -> None:
    assert slowed({"memory path": 11.4}, BASELINE) == []
    assert slowed({"memory path": 11.6}, BASELINE) == ["memory path"]


def test_a_worker_may_lose_twenty_percent_and_no_more() -> None:
    assert slowed({"memory inline": 11.9}, BASELINE) == []
    assert slowed({"memory inline": 12.1}, BASELINE) == ["memory inline"]


def test_a_stage_may_lose_thirty_percent_and_no_more() -> None:
    assert slowed({"memory open": 2.55}, BASELINE) == []
    assert slowed({"memory open": 2.65}, BASELINE) == ["memory open"]


def test_what_the_baseline_does_not_know_is_no_regression() -> None:
    assert slowed({"memory dance": 99.0}, BASELINE) == []


def test_every_stage_and_path_is_measured_on_memory_and_sqlite() -> None:
    found = measure(turns=1)
    stages = ("path", "build", "seal", "put", "lease", "open", "call and decide", "settle", "inline")
    assert set(found) == {f"{where} {stage}" for where in ("memory", "sqlite") for stage in stages} | {"memory lists"}
    assert all(cost.yardsticks > 0 and cost.microseconds > 0 for cost in found.values())


def test_without_a_baseline_the_cpu_of_a_job_is_told_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "BASELINE", tmp_path / "none.json")
    monkeypatch.setattr(check, "TURNS", 1)
    monkeypatch.setattr(sys, "argv", ["check"])
    assert check.main() == 0
    told = capsys.readouterr().out
    assert "memory path" in told
    assert "µs of CPU a job" in told
    assert "no baseline for" in told
