"""Runs the comparison, and writes results, tables, summary and plots: `python -m benchmarks.peers [--rows ROWS] …`."""

import argparse
from contextlib import suppress
from pathlib import Path

from benchmarks.peers import catalogue, page, rows
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.environments import cache
from benchmarks.peers.plots import write_plots
from benchmarks.peers.results import Report
from benchmarks.peers.servers import servers
from benchmarks.peers.tables import tables


def main() -> None:
    arguments = _arguments()
    if arguments.list:
        return _list()
    report = Report.read(arguments.render) if arguments.render else _compared(arguments)
    _write(report, arguments.out)
    if arguments.page:
        arguments.page.write_text(page.updated(arguments.page.read_text(), report))
    else:
        (arguments.out / "summary.md").write_text(page.sections(report))
    return print(f"written to {arguments.out}")


def _compared(arguments: argparse.Namespace) -> Report:
    budget = (
        rows.Budget(jobs=min(arguments.jobs, 3000), seconds=0.5) if arguments.quick else rows.Budget(arguments.jobs)
    )
    chosen = catalogue.select(catalogue.load(), arguments.only), rows.select(arguments.rows)
    comparison = Comparison(*chosen, budget, cache() / "logs")
    comparison.prepare()
    with servers() as running, suppress(KeyboardInterrupt):  # what was found so far is worth writing
        comparison.run(running, 1 if arguments.quick else arguments.rounds)
    return comparison.report()


def _write(report: Report, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    report.write(out / "results.json")
    (out / "tables.md").write_text(tables(report))
    write_plots(report, out)


def _list() -> None:
    print("peers (* by default):")
    for peer in catalogue.load():
        print(f"  {'*' if peer.key else ' '} {peer.name:<28}{peer.title}, {peer.server}: {peer.settings}")
    print("rows (* by default):")
    for row in rows.ROWS.values():
        print(f"  {'*' if row.key else ' '} {row.name:<28}{row.group}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="Tenure beside its peers.")
    parser.add_argument("--only", help="peers by name or family, such as tenure,celery,rq-simple; or all")
    parser.add_argument("--rows", help="rows by name, such as drain-sync,latency; or all")
    parser.add_argument("--rounds", type=int, help="take the median of this many; else of 3, and 5 for latencies")
    parser.add_argument("--jobs", type=int, default=rows.Budget.jobs, help="at most so many in a measurement")
    parser.add_argument("--quick", action="store_true", help="one round of half a second each, to see that it works")
    parser.add_argument("--list", action="store_true", help="the peers and rows there are")
    parser.add_argument("--render", type=Path, metavar="JSON", help="tables and plots of earlier results, no run")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the summary between the marks of this page")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/peers"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
