"""Results: what a comparison found, as a frozen value that is written to and read from JSON."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

Numbers = Mapping[str, float]
QUARTILES_FROM = 5  # rounds


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
    """What one row found of one peer: the median of the rounds and their range; or why there is nothing.

    The range of few rounds is the lowest and the highest; of five or more it is the quartiles, which one bad minute of
    the machine does not move.
    """

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

        lowest, highest = (min, max) if len(rounds) < QUARTILES_FROM else (_lower_quartile, _upper_quartile)
        return cls(peer, row, each(statistics.median), each(lowest), each(highest), len(rounds))


def _lower_quartile(values: Iterable[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def _upper_quartile(values: Iterable[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[2]


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
