"""Results: what a comparison found, as a frozen value that is written to and read from JSON."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Subject:
    """A peer as it was measured."""

    name: str
    title: str
    server: str
    version: str
    promise: str
    durable: str
    settings: str
    is_ours: bool

    @property
    def keeps_jobs(self) -> bool:
        """Whether a job survives the worker that runs it."""
        return not self.promise.startswith("at most once")


@dataclass(frozen=True)
class Cell:
    """What one row found of one peer: the median of the rounds, the lowest and the highest; or why there is nothing."""

    peer: str
    row: str
    median: Numbers = field(default_factory=dict)
    low: Numbers = field(default_factory=dict)
    high: Numbers = field(default_factory=dict)
    rounds: int = 0
    reason: str = ""

    @classmethod
    def of(cls, peer: str, row: str, rounds: Sequence[Numbers]) -> "Cell":
        def each(pick: object) -> Numbers:
            return {name: round(pick(numbers[name] for numbers in rounds), 4) for name in rounds[0]}  # type: ignore[operator]

        return cls(peer, row, each(statistics.median), each(min), each(max), len(rounds))


@dataclass(frozen=True)
class Report:
    """The whole comparison: machine, date, who took part, what was found, and who is absent and why."""

    machine: Mapping[str, str]
    servers: Mapping[str, str]
    subjects: Sequence[Subject]
    cells: Sequence[Cell]
    absent: Mapping[str, str]

    def cell(self, peer: str, row: str) -> Cell | None:
        return next((cell for cell in self.cells if (cell.peer, cell.row) == (peer, row)), None)

    def number(self, peer: str, row: str, name: str) -> float | None:
        cell = self.cell(peer, row)
        return cell.median.get(name) if cell else None

    def on(self, server: str) -> list[Subject]:
        return [subject for subject in self.subjects if subject.server == server]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Report":
        found = json.loads(path.read_text())
        subjects = [Subject(**each) for each in found.pop("subjects")]
        cells = [Cell(**each) for each in found.pop("cells")]
        return cls(subjects=subjects, cells=cells, **found)
