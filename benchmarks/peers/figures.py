"""Figures: the numbers of a report by which peers are compared, each with what a reader must know to judge it."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.peers.results import Report, Subject

DRAINS = ("drain-sync", "drain-async")


@dataclass(frozen=True)
class Figure:
    """Of these rows the best number of that name: rates are better when high, times and costs when low."""

    title: str
    rows: tuple[str, ...]
    number: str
    note: str = ""

    @property
    def is_less_better(self) -> bool:
        return not self.number.endswith("jobs/s")

    def of(self, report: Report, peer: str) -> float | None:
        found = [report.number(peer, row, self.number) for row in self.rows]
        known = [value for value in found if value is not None]
        best = min if self.is_less_better else max
        return best(known) if known else None

    def ratio(self, report: Report, ours: str, other: str) -> float | None:
        """Ours divided by the other's."""
        mine, theirs = self.of(report, ours), self.of(report, other)
        return mine / theirs if mine is not None and theirs else None

    def is_behind(self, ratio: float) -> bool:
        return ratio > 1 if self.is_less_better else ratio < 1


@dataclass(frozen=True)
class Shortfall:
    """A figure in which we are behind a peer."""

    figure: Figure
    peer: Subject
    ratio: float


@dataclass(frozen=True)
class Section:
    """Figures that are read together, and what was done to get them."""

    title: str
    text: str
    figures: tuple[Figure, ...]


def _latencies(title: str, row: str, note: str) -> list[Figure]:
    return [Figure(f"{title}, {number}", (row,), number, note) for number in ("p50 ms", "p99 ms")]


SECTIONS = (
    Section(
        "Drain",
        "A backlog of no-op jobs, run by one worker process; CPU of all processes of the worker, and of the server.",
        (
            Figure("drain, jobs/s", DRAINS, "jobs/s"),
            Figure("worker, CPU µs a job", DRAINS, "worker CPU µs"),
            Figure("server, CPU µs a job", DRAINS, "server CPU µs"),
        ),
    ),
    Section(
        "Enqueue",
        "One process enqueues: each job is stored before the next is sent, or a thousand jobs go out in each call.",
        (
            Figure("one by one, jobs/s", ("enqueue",), "jobs/s"),
            Figure("in bulk, jobs/s", ("bulk",), "jobs/s"),
            Figure("one by one, lists of 10 kB, jobs/s", ("enqueue-list-10kB",), "jobs/s"),
            Figure("in bulk, lists of 10 kB, jobs/s", ("bulk-list-10kB",), "jobs/s"),
        ),
    ),
    Section(
        "Payloads and results",
        "A drain as above, of jobs with a text, with a list of small objects, or with an object that they return.",
        (
            Figure("text of 10 kB, jobs/s", ("drain-10kB",), "jobs/s"),
            Figure("list of 1 kB, jobs/s", ("drain-list-1kB",), "jobs/s"),
            Figure("list of 10 kB, jobs/s", ("drain-list-10kB",), "jobs/s"),
            Figure("with results, jobs/s", ("drain-results",), "jobs/s"),
        ),
    ),
    Section(
        "Latency",
        "The time until the handler starts.",
        (
            *_latencies("idle", "latency", "*Idle*: from the enqueue call, with a job every 20 ms."),
            *_latencies("delayed", "delayed", "*Delayed*: from the time at which the job is due."),
            Figure("half load, jobs/s", ("half-load",), "load jobs/s"),
            *_latencies(
                "half load",
                "half-load",
                "*Half load*: from the enqueue call, at half of the rate of the peer's own drain; the loads differ"
                " as the drains do.",
            ),
        ),
    ),
)


def ours(report: Report, server: str) -> Subject | None:
    """Tenure with the best settings on this server: it stands before the defaults."""
    return next((subject for subject in report.on(server) if subject.is_ours), None)


def shortfalls(report: Report, server: str) -> Iterator[Shortfall]:
    """Where Tenure with its best settings is behind a peer on this server."""
    if mine := ours(report, server):
        for figure in (figure for section in SECTIONS for figure in section.figures):
            for subject in report.on(server):
                ratio = None if subject.is_ours else figure.ratio(report, mine.name, subject.name)
                if ratio is not None and figure.is_behind(ratio):
                    yield Shortfall(figure, subject, ratio)
