"""Scale: what docs/explanation/scale.md calculates, from the costs in costs.json alone.

`python -m benchmarks.scale` writes the page; with `--measure` it first measures the costs on every server and writes
them, too. A test compares the page with the costs.
"""

import argparse
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.bench import Numbers, interleaved
from benchmarks.drains import drained
from benchmarks.peers.comparison import machine
from benchmarks.peers.servers import DURABLE
from benchmarks.peers.tables import NAMES, markdown
from benchmarks.places import server_of
from benchmarks.serving import PID
from tests.support.servers import started

COSTS = Path(__file__).with_name("costs.json")
PAGE = Path(__file__).parents[1] / "docs/explanation/scale.md"
SPARE = 2  # half of each core is idle
RATES = (1_000, 100_000, 1_000_000)
ON_DISK = {
    "redis": "nothing, or the append-only file",
    "postgresql": "before a call returns",
    "mariadb": "before a call returns",
    "sqlite": "before a call returns",
    "beanstalk": "as its log is configured; records are in a store",
}
COLUMNS = {
    "producer": "producer",
    "worker": "worker",
    "children": "worker, in child processes",
    "store": "server, to store it",
    "settle": "server, to lease and settle it",
}
Costs = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="Write docs/explanation/scale.md.")
    parser.add_argument("--measure", action="store_true", help="measure the costs on every server first")
    parser.add_argument("--jobs", type=int, default=100_000, help="in each round; the kernel counts in steps of 10 ms")
    arguments = parser.parse_args()
    if arguments.measure:
        COSTS.write_text(json.dumps(measured(arguments.jobs), indent=2) + "\n")
    PAGE.write_text(updated(PAGE.read_text(), json.loads(COSTS.read_text())))
    print(f"written to {PAGE}")


def measured(jobs: int, servers: tuple[str, ...] = tuple(ON_DISK)) -> Costs:
    """The costs on each server, inline and in child processes in turn."""
    where = machine()
    found: Costs = {}
    for server in servers:
        with nullcontext() if server == "sqlite" else _running(server):
            turns = {"inline": lambda: drained(jobs), "process": lambda: drained(jobs, runner="process")}
            found[server] = _rounded(interleaved(turns))
        print(server, found[server], flush=True)
    return {"measured": f"on one core of an {where['processor']}, {where['date']}", "servers": found}


@contextmanager
def _running(name: str) -> Iterator[None]:
    with started(name, durable=DURABLE[name]) as server, server_of(server.url):
        os.environ[PID] = str(server.process.pid)
        yield
        del os.environ[PID]


def _rounded(numbers: Numbers) -> dict[str, float]:
    names = {
        "producer": "inline producer CPU µs",
        "worker": "inline worker CPU µs",
        "children": "process worker CPU µs",
        "store": "inline server CPU µs, store",
        "settle": "inline server CPU µs, lease and settle",
    }
    return {name: round(numbers[number], 1) for name, number in names.items() if number in numbers}


def updated(page: str, costs: Costs) -> str:
    """The page with what these costs say between its marks."""
    for name, text in (("costs", _costs(costs)), ("limits", _limits(costs)), ("rates", _rates(costs))):
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->\n")
        page = f"{before}{begin}{text}{end}{after}"
    return page


def _costs(costs: Costs) -> str:
    servers = costs["servers"]
    columns = [name for name in COLUMNS if any(name in cost for cost in servers.values())]
    lines = [[NAMES[server], *(_cost(server, cost, name) for name in columns), ON_DISK[server]]
             for server, cost in servers.items()]  # fmt: skip
    head = ["", *(COLUMNS[name] for name in columns), "written to disk"]
    return f"CPU microseconds, measured {costs['measured']}:\n\n{markdown(head, lines)}\n"


def _cost(server: str, cost: dict[str, Any], name: str) -> str:
    if name in cost:
        return f"{cost[name]:g}" if isinstance(cost[name], int | float) else cost[name]
    if server == "sqlite" and name in ("store", "settle"):
        return {"store": "in the producer", "settle": "in the worker"}[name]
    return "not measured"


def _limits(costs: Costs) -> str:
    cost = costs["servers"]
    redis, postgresql, mariadb = (_served(cost[name]) for name in ("redis", "postgresql", "mariadb"))
    share = cost["redis"]["worker"] / redis
    return (
        f"- **SQLite**: its single writer. At {cost['sqlite']['worker']:g} µs for draining a job, one process drains"
        f" about {_about(1e6 / cost['sqlite']['worker'])} jobs a second, and several processes share that."
        " Enqueueing one job at a time is as fast as the disk accepts commits.\n"
        f"- **Redis**: the one thread that runs scripts. At {redis:g} µs for storing and draining a job, one server"
        f" handles about {_about(1e6 / redis)} jobs a second. One core of a worker drains at most"
        f" {_about(1e6 / cost['redis']['worker'])}, so {math.ceil(share)} or more workers use one server fully.\n"
        f"- **PostgreSQL**: first CPU, at {postgresql:g} µs a job over all its cores, then the log, because the disk"
        " must accept every commit. The claims of a queue do not wait for each other, because each claim skips the rows"
        " that others have locked.\n"
        f"- **MariaDB**: the same at {mariadb / postgresql:.1f} times the CPU.\n"
    )


def _rates(costs: Costs) -> str:
    cost = costs["servers"]
    servers = cost["redis"], cost["postgresql"]
    head = ["jobs a second", "Redis servers", "cores of PostgreSQL", "worker cores", "producer cores"]
    lines = [
        [
            f"{rate:,}".replace(",", " "),
            *(str(_needed(rate, _served(server))) for server in servers),
            *(str(_needed(rate, max(server[who] for server in servers))) for who in ("worker", "producer")),
        ]
        for rate in RATES
    ]
    return f"{markdown(head, lines)}\n"


def _served(cost: dict[str, Any]) -> float:
    return round(cost["store"] + cost["settle"], 1)


def _needed(rate: int, microseconds: float) -> int:
    return math.ceil(round(rate * microseconds / 1e6 * SPARE, 6))


def _about(number: float) -> str:
    """Two digits that matter, thousands apart."""
    digits = len(str(int(number))) - 2
    return f"{round(number, -digits):,.0f}".replace(",", " ")


if __name__ == "__main__":
    main()
