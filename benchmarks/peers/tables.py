"""Tables: a report as markdown, for people who want every number."""

from collections.abc import Sequence

from benchmarks.peers.results import QUARTILES_FROM, Report, Subject
from benchmarks.peers.rows import ROWS

NAMES = {
    "redis": "Redis",
    "postgresql": "PostgreSQL",
    "sqlite": "SQLite",
    "mariadb": "MariaDB",
    "beanstalk": "beanstalkd",
}
HIDDEN = {"PSS MB"}  # in the JSON for those who ask
Line = Sequence[str]


def tables(report: Report) -> str:
    """A table for each group of rows on each server, then who took part."""
    parts = [_machine(report)]
    for server in dict.fromkeys(subject.server for subject in report.subjects):
        parts.append(f"## {NAMES[server]}\n")
        for group, rows in _groups(report).items():
            parts.append(_group(report, server, group, rows))
    return "\n".join(part for part in [*parts, _subjects(report), _absent(report)] if part)


def _groups(report: Report) -> dict[str, list[str]]:
    measured = {cell.row for cell in report.cells}
    groups: dict[str, list[str]] = {}
    for name, row in ROWS.items():
        if name in measured:
            groups.setdefault(row.group, []).append(name)
    return groups


def _group(report: Report, server: str, group: str, rows: list[str]) -> str:
    columns = [(row, number) for row in rows for number in _numbers(report, row) if number not in HIDDEN]
    head = ["peer", *(f"{row}<br>{number}" for row, number in columns)]
    lines = [[_title(each), *(_cell(report, each, *column) for column in columns)] for each in report.on(server)]
    told = [line for line in lines if any(cell != "–" for cell in line[1:])]
    return f"### {group}\n\n{markdown(head, told)}\n" if told else ""


def _numbers(report: Report, row: str) -> list[str]:
    """The names of a row's numbers, in the order in which they were told."""
    return list(dict.fromkeys(name for cell in report.cells if cell.row == row for name in cell.median))


def _cell(report: Report, subject: Subject, row: str, name: str) -> str:
    cell = report.cell(subject.name, row)
    if cell is None or name not in cell.median:
        return "–"
    text = number(cell.median[name])
    spread = "" if cell.rounds < 2 else f" ({number(cell.low[name])} to {number(cell.high[name])})"
    return text if spread == f" ({text} to {text})" else text + spread


def number(value: float) -> str:
    """Three digits that matter; thousands apart."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _title(subject: Subject) -> str:
    return f"**{subject.title}**" if subject.is_ours else subject.title


def _subjects(report: Report) -> str:
    head = ["peer", "server", "version", "when a worker is killed", "survives the server", "settings"]
    lines = [
        [_title(each), NAMES[each.server], each.version, each.promise, each.durable, each.settings]
        for each in report.subjects
    ]
    return f"## Who took part\n\n{markdown(head, lines)}\n"


def _absent(report: Report) -> str:
    if not report.absent:
        return ""
    return "Left out:\n\n" + "".join(f"- {name}: {reason}\n" for name, reason in report.absent.items())


def _machine(report: Report) -> str:
    where = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    ranges = f"the lowest and the highest; of {QUARTILES_FROM} rounds or more, the quartiles"
    return f"# Tenure beside its peers\n\n{where}.\nFigures are medians of interleaved rounds; in brackets {ranges}.\n"


def markdown(head: Line, lines: Sequence[Line]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])
