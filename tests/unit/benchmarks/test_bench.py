"""How rounds of measurements become numbers."""

from pathlib import Path

from benchmarks.bench import interleaved
from benchmarks.probe import Probe


def test_rounds_are_interleaved_and_their_medians_told() -> None:
    order: list[str] = []

    def measure(name: str, values: list[float]) -> dict[str, float]:
        order.append(name)
        return {"jobs/s": values.pop(0)}

    first, second = [1.0, 9.0, 2.0], [5.0, 4.0, 6.0]
    found = interleaved({"a": lambda: measure("a", first), "b": lambda: measure("b", second)}, rounds=3)
    assert order == ["a", "b"] * 3
    assert found == {"a jobs/s": 2.0, "b jobs/s": 5.0}


def test_five_rounds_are_told_with_their_quartiles() -> None:
    values = [3.0, 1.0, 5.0, 2.0, 4.0]
    found = interleaved({"idle": lambda: {"p50 ms": values.pop()}}, rounds=5)
    assert found == {
        "idle p50 ms": 3.0,
        "idle p50 ms, lower quartile": 2.0,
        "idle p50 ms, upper quartile": 4.0,
    }


def test_a_probe_counts_the_jobs_that_have_started(tmp_path: Path) -> None:
    probe = Probe(tmp_path / "probe", 1000)
    for i in (0, 1, 1, 999):
        probe.mark(i)
    assert probe.ran() == len(probe.starts()) == 3
    assert probe.runs()[1] == 2
