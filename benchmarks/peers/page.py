"""Page: a report as sections for readers: each figure beside the peers', Tenure divided by them, and who is faster."""

from collections.abc import Iterator
from itertools import groupby

from benchmarks.peers.figures import SECTIONS, Figure, Section, Shortfall, ours, shortfalls
from benchmarks.peers.results import Report, Subject
from benchmarks.peers.tables import NAMES, markdown, number

BEGIN, END = "<!-- peers -->\n", "<!-- /peers -->\n"
HOW = """\
Each figure is the median of interleaved rounds.
In brackets: the figure of Tenure divided by that of this line, **bold** where Tenure is behind.
"""


def updated(page: str, report: Report) -> str:
    """The page with the sections of this report between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{sections(report)}{END}{after}"


def sections(report: Report) -> str:
    """What was not measured is left out."""
    parts = [HOW, *(_section(report, section) for section in SECTIONS), _behind(report)]
    return "\n".join(part for part in parts if part)


def _section(report: Report, section: Section) -> str:
    figures = [
        figure
        for figure in section.figures
        if any(figure.of(report, each.name) is not None for each in report.subjects)
    ]
    lines = [line for server in _servers(report) for line in _lines(report, server, figures)]
    table = markdown(["peer", *(figure.title for figure in figures)], lines)
    text = "\n".join(dict.fromkeys([section.text, *(figure.note for figure in figures if figure.note)]))
    return f"### {section.title}\n\n{text}\n\n{table}\n" if lines else ""


def _lines(report: Report, server: str, figures: list[Figure]) -> Iterator[list[str]]:
    mine = ours(report, server)
    for subject in report.on(server):
        cells = [_cell(report, figure, subject, mine) for figure in figures]
        if any(cells):
            title = f"{subject.title} on {NAMES[server]}"
            yield [f"**{title}**" if subject.is_ours else title, *cells]


def _cell(report: Report, figure: Figure, subject: Subject, mine: Subject | None) -> str:
    value = figure.of(report, subject.name)
    if value is None:
        return ""
    ratio = figure.ratio(report, mine.name, subject.name) if mine and mine is not subject else None
    if ratio is None:
        return number(value)
    is_behind = figure.is_behind(ratio) and not subject.is_ours
    return f"{number(value)} ({f'**{number(ratio)}**' if is_behind else number(ratio)})"


def _behind(report: Report) -> str:
    found = [(server, each) for server in _servers(report) for each in shortfalls(report, server)]
    if not found:
        return ""
    lines = []
    for (server, title), group in groupby(found, key=lambda each: (each[0], each[1].figure.title)):
        lines.append(f"- {NAMES[server]}, {title}: {', '.join(_shortfall(each) for _, each in group)}\n")
    return f"### Where Tenure is behind\n\nTenure divided by the peer:\n\n{''.join(lines)}"


def _shortfall(each: Shortfall) -> str:
    loses = "" if each.peer.keeps_jobs else ", which loses the jobs of a killed worker"
    return f"{number(each.ratio)} of {each.peer.title}{loses}"


def _servers(report: Report) -> list[str]:
    return list(dict.fromkeys(subject.server for subject in report.subjects))
