"""The comparison with peers: its rows, verdicts, tables and plots, on given results."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.peers import catalogue, page, rows
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.environments import HERE, PINS, ROOT, Unavailable, interpreter
from benchmarks.peers.kills import judge
from benchmarks.peers.plots import write_plots
from benchmarks.peers.probe import Probe
from benchmarks.peers.results import Cell, Report, Subject
from benchmarks.peers.servers import ON_DISK
from benchmarks.peers.tables import tables

SECOND = 1_000_000_000
PERFORMANCE = ROOT / "docs/explanation/performance.md"


@pytest.fixture
def report() -> Report:
    ours = Subject("tenure-redis", "Tenure", "redis", "tenure==1", "at least once", "no", "inline", is_ours=True)
    other = Subject("rq", "RQ <&>", "redis", "rq==2", "at most once", "no", "fork", is_ours=False)
    cells = [
        Cell.of("tenure-redis", "drain-sync", [{"jobs/s": 30_000.0}, {"jobs/s": 32_000.0}, {"jobs/s": 31_000.0}]),
        Cell.of("rq", "drain-sync", [{"jobs/s": 250.0}]),
        Cell.of("tenure-redis", "bulk", [{"jobs/s": 50_000.0}]),
        Cell("rq", "bulk", reason="not offered"),
    ]
    return Report({"date": "2031-01-01"}, {"redis": "no"}, [ours, other], cells, {"bullmq": "it needs node"})


def test_every_peer_has_an_adapter_an_environment_and_a_server() -> None:
    for peer in catalogue.load():
        folder, ending = ("node", "mjs") if peer.is_node else ("adapters", "py")
        assert (HERE / folder / f"{peer.adapter}.{ending}").is_file()
        assert peer.is_ours or peer.environment in PINS
        assert peer.server in ON_DISK
        assert peer.styles[0] in ("sync", "async")


def test_peers_are_chosen_by_name_or_by_family() -> None:
    peers = catalogue.load()
    assert {peer.name for peer in catalogue.select(peers, "rq")} == {"rq", "rq-simple"}
    assert {peer.name for peer in catalogue.select(peers, "rq-simple,arq")} == {"rq-simple", "arq"}
    assert catalogue.select(peers, "all") == peers
    with pytest.raises(SystemExit, match="no such peer: rqq"):
        catalogue.select(peers, "rqq")


def test_a_row_that_does_not_exist_is_named() -> None:
    with pytest.raises(SystemExit, match="no such row: dram"):
        rows.select("dram")


def test_a_peer_that_cannot_be_installed_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    with pytest.raises(Unavailable, match="it needs node"):
        interpreter("node")
    comparison = Comparison(catalogue.select(catalogue.load(), "bullmq"), [], rows.Budget(), tmp_path)
    comparison.prepare()
    assert comparison.report().absent == {"bullmq": "it needs node, which is not installed"}


def test_rounds_are_interleaved_and_each_begins_with_another_peer(tmp_path: Path) -> None:
    peers = catalogue.select(catalogue.load(), "rq,arq,huey-sqlite")
    comparison = Comparison(peers, [], rows.Budget(), tmp_path)
    first, second = comparison.in_turn(0), comparison.in_turn(1)
    assert [peer.name for peer in first] == ["rq", "rq-simple", "arq", "huey-sqlite"]
    assert [peer.name for peer in second] == ["rq-simple", "arq", "rq", "huey-sqlite"]


def test_latencies_have_five_rounds_others_three_and_kills_one_unless_told_how_many() -> None:
    def counted(name: str, rounds: int | None) -> int:
        return sum(rows.ROWS[name].is_measured_in(number, rounds) for number in range(9))

    assert [counted(name, None) for name in ("latency", "delayed", "half-load")] == [5, 5, 5]
    assert [counted(name, None) for name in ("drain-sync", "kills")] == [3, 1]
    assert [counted(name, 2) for name in ("latency", "drain-sync", "kills")] == [2, 2, 1]


def test_the_range_is_that_of_all_rounds_or_the_quartiles_of_five() -> None:
    three = Cell.of("rq", "latency", [{"p50 ms": value} for value in (1.0, 9.0, 2.0)])
    five = Cell.of("rq", "latency", [{"p50 ms": value} for value in (1.0, 9.0, 2.0, 3.0, 4.0)])
    assert (three.low["p50 ms"], three.median["p50 ms"], three.high["p50 ms"]) == (1.0, 2.0, 9.0)
    assert (five.low["p50 ms"], five.median["p50 ms"], five.high["p50 ms"]) == (2.0, 3.0, 4.0)


def test_a_report_survives_being_written_and_read(report: Report, tmp_path: Path) -> None:
    report.write(tmp_path / "results.json")
    assert Report.read(tmp_path / "results.json") == report


def test_tables_tell_medians_with_their_range_and_who_is_absent(report: Report) -> None:
    text = tables(report)
    assert "| **Tenure** | 31 000 (30 000 to 32 000) |" in text
    assert "| RQ <&> | 250 |" in text
    assert text.count("RQ <&>") == 2  # in the drain and among those who took part, for it has no bulk
    assert "- bullmq: it needs node" in text


def test_a_summary_divides_the_figures_of_tenure_by_those_of_the_peers(report: Report) -> None:
    text = page.sections(report)
    assert "| **Tenure on Redis** | 31 000 |" in text
    assert "| RQ <&> on Redis | 250 (124) |" in text
    assert "### Latency" not in text  # was not measured
    assert "### Where Tenure is behind" not in text


def test_a_summary_names_what_is_better_elsewhere_also_where_less_is_better(report: Report) -> None:
    cells = [
        *report.cells,
        Cell.of("tenure-redis", "latency", [{"p50 ms": 3.0, "p99 ms": 4.0}]),
        Cell.of("rq", "latency", [{"p50 ms": 2.0, "p99 ms": 5.0}]),
    ]
    text = page.sections(replace(report, cells=cells))
    assert "| RQ <&> on Redis | 2 (**1.50**) | 5 (0.80) |" in text
    assert "- Redis, idle, p50 ms: 1.50 of RQ <&>, which loses the jobs of a killed worker\n" in text
    assert "p99 ms:" not in text


def test_the_page_on_performance_shows_the_committed_results() -> None:
    text = PERFORMANCE.read_text()
    assert text == page.updated(text, Report.read(PERFORMANCE.parent / "peers/results.json")), "see compare-speed.md"


def test_plots_are_svg_in_both_themes_with_the_longest_bar_first(report: Report, tmp_path: Path) -> None:
    write_plots(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("drain-light.svg", "drain-dark.svg", "bulk-light.svg", "bulk-dark.svg")
    }
    for path in tmp_path.iterdir():
        ElementTree.parse(path)
    words = [
        each.text for each in ElementTree.parse(tmp_path / "drain-dark.svg").iter() if each.text and each.text.strip()
    ]
    assert words[2:-1] == ["Redis", "Tenure", "31 000", "RQ <&>", "250"]


def test_kills_are_judged_by_what_finished_and_what_ran_again(tmp_path: Path) -> None:
    probe = Probe(tmp_path / "probe", 5)
    kill = 10 * SECOND
    _job(probe, 0, runs=1, started=9 * SECOND, finished=9 * SECOND)  # in order
    _job(probe, 1, runs=1, started=9 * SECOND, finished=0)  # lost
    _job(probe, 2, runs=2, started=11 * SECOND, finished=12 * SECOND)  # interrupted by the kill, and run again
    _job(probe, 3, runs=2, started=11 * SECOND, finished=kill - 1)  # finished, and its acknowledgement was lost
    _job(probe, 4, runs=2, started=11 * SECOND, finished=2 * SECOND)  # finished long before, and run again
    found = judge(probe, 5, [kill])
    assert found == {"jobs": 5, "kills": 1, "lost or stuck": 1, "run again": 3, "doubled": 2, "unexplained": 1}


def _job(probe: Probe, i: int, runs: int, started: int, finished: int) -> None:
    probe.runs[i], probe.started[i], probe.finished[i] = runs, started, finished
