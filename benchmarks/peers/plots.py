"""Plots: a report as bars in SVG, light and dark, written by hand: one panel a server, ours in colour."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.peers.figures import DRAINS, Figure
from benchmarks.peers.results import Report
from benchmarks.peers.tables import NAMES, number

WIDTH, LABEL, VALUE = 760, 190, 90
BAR, GAP, HEAD, TITLE, FOOT = 16, 8, 34, 58, 36
OUTLIER = 6  # times the median: where less is better, longer bars are drawn broken
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


@dataclass(frozen=True)
class Palette:
    """Colours of one theme; the background is left to the page."""

    text: str
    quiet: str
    line: str
    ours: str
    other: str


PALETTES = {
    "light": Palette(text="#1f2328", quiet="#59636e", line="#d1d9e0", ours="#0969da", other="#afb8c1"),
    "dark": Palette(text="#f0f6fc", quiet="#9198a1", line="#3d444d", ours="#4493f8", other="#57606a"),
}


@dataclass(frozen=True)
class Bar:
    """`keeps` says whether a job survives its worker."""

    label: str
    value: float
    is_ours: bool
    keeps: bool = True


@dataclass(frozen=True)
class Plot:
    """What one picture shows: a figure of every peer that has it.

    Each panel has a scale of its own, for servers differ by more than peers do, unless there is a `whole`.
    """

    name: str
    title: str
    note: str
    figure: Figure
    whole: float | None = None

    def bars(self, report: Report, server: str) -> list[Bar]:
        found = [
            Bar(subject.title, value, subject.is_ours, subject.keeps_jobs)
            for subject in report.on(server)
            if (value := self.figure.of(report, subject.name)) is not None
        ]
        return sorted(found, key=lambda bar: bar.value, reverse=not self.figure.is_less_better)


def _plot(name: str, title: str, note: str, rows: tuple[str, ...], number: str, whole: float | None = None) -> Plot:
    figure = Figure(title, rows, number)
    better = "shorter is better" if figure.is_less_better else "longer is better"
    return Plot(name, title, f"{note}; {better}" if note else better, figure, whole)


LOST = "Of 1 000 jobs, lost or stuck when a worker was killed"
PLOTS = (
    _plot("drain", "Jobs per second, run by one worker", "no-op jobs", DRAINS, "jobs/s"),
    _plot("enqueue", "Jobs per second, enqueued one by one", "", ("enqueue",), "jobs/s"),
    _plot("bulk", "Jobs per second, enqueued in bulk", "", ("bulk",), "jobs/s"),
    _plot("lists", "Jobs per second with lists of 10 kB, run by one worker", "", ("drain-list-10kB",), "jobs/s"),
    _plot("results", "Jobs per second with stored results, run by one worker", "", ("drain-results",), "jobs/s"),
    _plot("cpu", "Microseconds of a worker's CPU for a job", "no-op jobs", DRAINS, "worker CPU µs"),
    _plot("latency", "Milliseconds from enqueue to start, median", "idle worker", ("latency",), "p50 ms"),
    _plot("delayed", "Milliseconds that a delayed job starts late, median", "idle worker", ("delayed",), "p50 ms"),
    _plot("load", "Milliseconds from enqueue to start, median", "half the rate of a drain", ("half-load",), "p50 ms"),
    _plot("kills", LOST, "", ("kills",), "lost or stuck", 1000),
)


def write_plots(report: Report, out: Path) -> None:
    for plot in PLOTS:
        panels = {
            server: plot.bars(report, server) for server in dict.fromkeys(each.server for each in report.subjects)
        }
        if any(panels.values()):
            for theme, palette in PALETTES.items():
                (out / f"{plot.name}-{theme}.svg").write_text(draw(plot, panels, palette, _foot(report, plot)))


def _foot(report: Report, plot: Plot) -> str:
    machine, rounds = report.machine, max(cell.rounds for cell in report.cells if cell.row in plot.figure.rows)
    where = f"{machine.get('cores', '?')} cores, Python {machine.get('python', '?')}, {machine.get('date', '')}"
    return f"Outlined: loses the job of a killed worker. {where}; {f'median of {rounds}' if rounds > 1 else 'once'}."


def draw(plot: Plot, panels: dict[str, list[Bar]], palette: Palette, foot: str) -> str:
    shown = {server: bars for server, bars in panels.items() if bars}
    height = TITLE + sum(HEAD + len(bars) * (BAR + GAP) for bars in shown.values()) + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="{FONT}" role="img" aria-label="{escape(plot.title)}">',
        _text(0, 20, plot.title, palette.text, size=17, weight=600),
        _text(0, 42, plot.note, palette.quiet),
    ]
    top = TITLE
    for server, bars in shown.items():
        parts += _panel(NAMES[server], bars, top, palette, plot.whole or _scale(bars, plot.figure.is_less_better))
        top += HEAD + len(bars) * (BAR + GAP)
    parts.append(_text(0, height - 8, foot, palette.quiet, size=12))
    return "\n".join([*parts, "</svg>", ""])


def _scale(bars: Sequence[Bar], is_less_better: bool) -> float:
    longest = max(bar.value for bar in bars) or 1.0
    usual = statistics.median(bar.value for bar in bars)
    return min(longest, OUTLIER * usual or longest) if is_less_better else longest


def _panel(title: str, bars: Sequence[Bar], top: int, palette: Palette, scale: float) -> Iterator[str]:
    yield _text(0, top + 20, title, palette.text, weight=600)
    yield f'<line x1="{LABEL}" x2="{WIDTH}" y1="{top + 15}" y2="{top + 15}" stroke="{palette.line}"/>'
    for place, bar in enumerate(bars):
        y = top + HEAD + place * (BAR + GAP)
        ink, weight = (palette.text, 600) if bar.is_ours else (palette.quiet, 400)
        length = min(1.0, bar.value / scale) * (WIDTH - LABEL - VALUE)
        yield _text(LABEL - 10, y + 12, bar.label, ink, weight=weight, anchor="end")
        yield from _rectangles(bar, y, length, bar.value > scale, palette)
        yield _text(LABEL + length + 8, y + 12, number(bar.value), ink, weight=weight)


def _rectangles(bar: Bar, y: int, length: float, is_broken: bool, palette: Palette) -> Iterator[str]:
    colour = palette.ours if bar.is_ours else palette.other
    look = f'fill="{colour}"' if bar.keeps else f'fill="none" stroke="{colour}" stroke-width="1.5"'
    parts = [(0.0, length - 24), (length - 18, 18.0)] if is_broken else [(0.0, length)]
    for start, width in parts:
        yield f'<rect x="{LABEL + start:.1f}" y="{y}" width="{max(width, 1.5):.1f}" height="{BAR}" rx="2" {look}/>'


def _text(x: float, y: float, words: str, fill: str, size: int = 13, weight: int = 400, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" font-weight="{weight}" fill="{fill}">{escape(words)}</text>'
