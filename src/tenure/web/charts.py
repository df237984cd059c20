"""Charts of the dashboard: pure functions from numbers to what an SVG element or a plot needs as attributes.

Everything is drawn from zero, so that heights can be compared. The policy of the pages forbids inline styles,
so positions are attributes: percentages or the units of a fixed view box.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor, log10

SPARK_WIDTH, SPARK_HEIGHT = 72, 20
STRIP_TICKS, STRIP_HEIGHT = 30, 20
_BAR, _GAP = 4, 2
STRIP_WIDTH = STRIP_TICKS * (_BAR + _GAP) - _GAP
_BAR_HEIGHTS = {"succeeded": 14, "failed": 20, "skipped": 4, "running": 14}
_LEAST_PART = 1.5  # percent of a meter: a part that is there must be seen
_TOPS = (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10)  # their halves are short numbers too
_TIME_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Sparkline:
    """Points of an SVG polyline, and of the polygon below it."""

    line: str
    area: str


def sparkline(values: Sequence[float | None]) -> Sparkline | None:
    """The line of these values from left to right; None below two values, which make no line."""
    if len(values) < 2:
        return None
    numbers = [value or 0 for value in values]
    top, step = max(*numbers, 0) or 1, SPARK_WIDTH / (len(numbers) - 1)
    room = SPARK_HEIGHT - 2  # a pixel above and below, for half the stroke
    line = " ".join(f"{at * step:.1f},{SPARK_HEIGHT - 1 - value / top * room:.1f}" for at, value in enumerate(numbers))
    return Sparkline(line, f"0,{SPARK_HEIGHT} {line} {SPARK_WIDTH},{SPARK_HEIGHT}")


@dataclass(frozen=True)
class Part:
    """A rectangle of a meter, in percent of its width."""

    tone: str
    x: float
    width: float


def meter(parts: Iterable[tuple[str, float]], total: float | None = None) -> list[Part]:
    """The parts (tone, size) side by side; the rest of the total stays empty."""
    sized = [(tone, size) for tone, size in parts if size > 0]
    whole = max(total or 0, sum(size for _, size in sized))
    widths = [max(size / whole * 100, _LEAST_PART) for _, size in sized]
    shrink = min(1.0, 100 / sum(widths)) if widths else 1.0
    placed, x = [], 0.0
    for (tone, _), width in zip(sized, widths, strict=True):
        placed.append(Part(tone, round(x, 2), round(width * shrink, 2)))
        x += width * shrink
    return placed


@dataclass(frozen=True)
class Bar:
    """A tick in the strip of outcomes."""

    outcome: str
    x: int
    y: int
    height: int


def strip(outcomes: Sequence[str]) -> list[Bar]:
    """The last outcomes (succeeded, failed, skipped, running), oldest first, the newest at the right end."""
    shown = outcomes[-STRIP_TICKS:]
    first = STRIP_TICKS - len(shown)
    bars = []
    for at, outcome in enumerate(shown, first):
        height = _BAR_HEIGHTS[outcome]
        bars.append(Bar(outcome, at * (_BAR + _GAP), STRIP_HEIGHT - height, height))
    return bars


def nice_top(highest: float) -> float:
    """The smallest round number that is not below the highest value."""
    if highest <= 0:
        return 1
    power = 10.0 ** floor(log10(highest))
    return next(round(top * power, 12) for top in _TOPS if top * power >= highest * 0.999999)


@dataclass(frozen=True)
class Tick:
    """A label of an axis: `at` is in the unit of the data, seconds since 1970 for times."""

    at: float
    label: str


def value_axis(highest: float, unit: str = "") -> tuple[Tick, ...]:
    """Labels at nothing, half and all of a round number; the highest names the unit. Seconds may become hours."""
    size = 1
    if unit == "s":
        size, unit = next(((size, name) for size, name in _TIME_UNITS if highest > 1.5 * size), (1, "s"))
    top = nice_top(highest / size)
    scale, letter = (1_000_000, " M") if top >= 2_000_000 else (1000, " k") if top >= 2000 else (1, "")
    half, whole = (f"{value / scale:.6g}{letter}" for value in (top / 2, top))
    return (Tick(0, "0"), Tick(top / 2 * size, half), Tick(top * size, f"{whole} {unit}".rstrip()))


def time_axis(start: datetime, end: datetime, count: int = 3) -> tuple[Tick, ...]:
    """Labels at equal distances, the first at the start and the last at the end."""
    step = (end - start) / (count - 1)
    form = "%H:%M:%S" if end - start <= timedelta(minutes=count) else "%H:%M"
    times = [start + step * at for at in range(count)]
    if end - start > timedelta(days=2):
        return tuple(Tick(time.timestamp(), f"{time.day} {time:%b}") for time in times)
    return tuple(Tick(time.timestamp(), time.strftime(form)) for time in times)


@dataclass(frozen=True)
class ChartSeries:
    """A line of a figure; its style is ink, grey, dashed, or the tone of the one state that it measures."""

    name: str
    values: Sequence[float | None]
    style: str = "ink"
    note: str = ""
    area: bool = False


@dataclass(frozen=True)
class Plot:
    """What a figure draws: the browser takes the numbers from the table, the labels from here."""

    times: Sequence[datetime]
    series: Sequence[ChartSeries]
    x_axis: tuple[Tick, ...]
    y_axis: tuple[Tick, ...]


def plot(times: Sequence[datetime], series: Sequence[ChartSeries], unit: str = "", labels: int = 3) -> Plot:
    """The figure of these series, which have one value for each time."""
    highest = max((value for each in series for value in each.values if value is not None), default=0)
    x_axis = time_axis(times[0], times[-1], labels) if len(times) > 1 else ()
    return Plot(times, series, x_axis, value_axis(highest, unit))
