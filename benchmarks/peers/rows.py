"""The rows: each measures one thing of one peer on an empty server, and returns its numbers by name.

None says that the peer does not offer it. A rate of a drain counts from the first start of a handler to the last,
so that booting is left out; one last batch of acknowledgements is then left out as well, for everyone.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.payloads import Payload, records
from benchmarks.peers import processes
from benchmarks.peers.kills import SLOTS, kills
from benchmarks.peers.stand import BOOT, Failed, Stand, Workers

Numbers = dict[str, float]
KEPT_TRIES = 5
SMALLEST = (
    500  # jobs of the first backlog that the rate of a worker is taken from; each next one is eight times as long
)
LONG_ENOUGH = 0.5  # seconds that a backlog must last
LATENCY_ROUNDS = 5


@dataclass(frozen=True)
class Budget:
    """At most so many jobs, and so many seconds for sending and for running each."""

    jobs: int = 40_000
    seconds: float = 1.5

    @property
    def patience(self) -> float:
        return 4 * self.seconds


@dataclass(frozen=True)
class Row:
    """`slots` is how many jobs it may need, where that is not the budget's; `once` measures in the first round only.

    Latencies vary more than rates from one round to the next: their rows have more rounds, unless the caller says how
    many.
    """

    name: str
    group: str
    measure: Callable[[Stand, Budget], Numbers | None]
    key: bool = False
    once: bool = False
    slots: int = 0
    rounds: int = 3

    def is_measured_in(self, number: int, rounds: int | None) -> bool:
        return number < (1 if self.once else rounds or self.rounds)


def enqueue(stand: Stand, budget: Budget, way: str = "one", work: str = "noop", pad: Payload = "") -> Numbers | None:
    """From one process; one by one means that each is stored before the next is sent."""
    sent = stand.send(stand.job(work), budget.jobs, budget.seconds, way, pad=pad)
    return sent and {"jobs/s": sent.rate, "client CPU µs": sent.cpu / sent.jobs * 1e6}


def drain(
    stand: Stand,
    budget: Budget,
    work: str = "noop",
    style: str | None = None,
    count: int = 1,
    pad: Payload = "",
) -> Numbers | None:
    """A backlog run by so many worker processes, and what that cost them and the server."""
    if style and style not in stand.peer.styles:
        return None
    job = stand.job(work, style)
    jobs = stand.fill(job, budget.jobs, budget.seconds, pad=pad).jobs
    with stand.worker(job, count) as workers:
        return _drained(stand, workers, jobs, budget.patience)


def results(stand: Stand, budget: Budget) -> Numbers | None:
    """A backlog of jobs that return an object, which the peer keeps for whoever asks; where it keeps results."""
    job = stand.job("result")
    if stand.kept(job) is None:
        return None
    jobs = stand.fill(job, budget.jobs, budget.seconds).jobs
    with stand.worker(job) as workers:
        numbers = _drained(stand, workers, jobs, budget.patience)
        kept = ran = 0
        for _ in range(KEPT_TRIES):  # the last results are stored after their jobs have started
            kept, ran = stand.kept(job) or 0, stand.probe.ran(jobs)
            if kept == jobs:
                break
    return {**numbers, "results kept %": 100 * kept / ran}


def _drained(stand: Stand, workers: Workers, jobs: int, patience: float) -> Numbers:
    probe = stand.probe
    if not workers.wait(lambda: probe.ran(jobs) > 0, BOOT):
        raise Failed("its worker started no job")
    before, spent, served = probe.ran(jobs), processes.cpu_seconds(workers.pids), stand.server_cpu()
    workers.wait(lambda: probe.ran(jobs) == jobs, patience)
    spent, served = processes.cpu_seconds(workers.pids) - spent, stand.server_cpu() - served
    ran, (rss, pss) = probe.ran(jobs), processes.megabytes(workers.pids)
    starts = sorted(moment for moment in probe.started[:jobs] if moment)
    counted = max(1, ran - before)
    return {
        "jobs/s": _rate(starts),
        "worker CPU µs": spent / counted * 1e6,
        "server CPU µs": served / counted * 1e6,
        "RSS MB": rss,
        "PSS MB": pss,
        "run twice": float(sum(1 for runs in probe.runs[:jobs] if runs > 1)),
    }


def _rate(moments: list[int]) -> float:
    """Between the first and the last of these moments, which are nanoseconds."""
    span = (moments[-1] - moments[0]) / 1e9 if len(moments) > 1 else 0.0
    return (len(moments) - 1) / span if span else 0.0


def latency(stand: Stand, budget: Budget) -> Numbers:
    """From the call that enqueues to the start of the handler, on a worker that waits; a job every 20 ms."""
    job, count = stand.job("noop"), max(50, min(300, int(budget.seconds * 50)))
    probe, warm = stand.probe, 5
    with stand.worker(job) as workers:
        stand.send(job, warm, 0, "spaced", first=count, gap=0.05)
        if not workers.wait(lambda: all(probe.runs[count : count + warm]), BOOT):
            raise Failed("its worker started no job")
        stand.send(job, count, 0, "spaced", first=0, gap=0.02)
        workers.wait(lambda: probe.ran(count) == count, budget.patience)
    return _percentiles([(probe.started[i] - probe.sent[i]) / 1e6 for i in range(count) if probe.started[i]])


def loaded(stand: Stand, budget: Budget) -> Numbers:
    """As `latency`, while jobs come in steadily at half the rate at which this worker drains a backlog."""
    job, first, size = stand.job("noop"), 0, min(SMALLEST, budget.jobs)
    while True:
        stand.fill(job, size, BOOT, first=first)
        runs = stand.probe.runs[first : first + size]
        with stand.worker(job) as workers:
            if not workers.wait(lambda runs=runs: 0 not in bytes(runs), BOOT):
                raise Failed("it did not run a backlog to the end")
            rate, last = _rate(sorted(stand.probe.started[first : first + size])), size
            first, size = first + size, 8 * size
            if last > rate * LONG_ENOUGH or first + size > budget.jobs:
                return _under_load(stand, workers, first, rate / 2, budget)


def _under_load(stand: Stand, workers: Workers, first: int, rate: float, budget: Budget) -> Numbers:
    seconds, probe = 2 * budget.seconds, stand.probe
    wanted = min(budget.jobs, int(rate * seconds))
    sent = stand.send(stand.job("noop"), wanted, 2 * seconds, "steady", first=first, rate=rate)
    assert sent
    mine = range(first, first + sent.jobs)
    workers.wait(lambda: all(probe.runs[i] for i in mine), budget.patience)
    waits = [(probe.started[i] - probe.sent[i]) / 1e6 for i in mine if probe.started[i]]
    return {"load jobs/s": sent.rate, **_percentiles(waits), "not started": float(sent.jobs - len(waits))}


def _percentiles(waits: list[float]) -> Numbers:
    if len(waits) < 2:
        raise Failed("hardly any job ran")
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {"p50 ms": cuts[49], "p99 ms": cuts[98]}


def backlog(stand: Stand, budget: Budget, size: int = 10_000) -> Numbers | None:
    """The rate over the first jobs of a large backlog; peers that need more than a minute to get there are left out."""
    job = stand.job("noop")
    if stand.fill(job, size, 60.0).jobs < size:
        return None
    with stand.worker(job) as workers:
        workers.wait(lambda: stand.probe.ran(size) > 0, BOOT)
        workers.wait(lambda: stand.probe.ran(size) >= min(size, 20_000), budget.patience)
    starts = sorted(moment for moment in stand.probe.started[:size] if moment)
    return {"jobs/s": _rate(starts[: min(size, 20_000)])}


def delayed(stand: Stand, budget: Budget) -> Numbers | None:
    """A thousand jobs that fall due one after the other within seconds: how late each starts."""
    job, span = stand.job("noop"), 2 * budget.seconds
    with stand.worker(job) as workers:
        sent = stand.send(job, 1000, budget.seconds, "later", span=span)
        if sent is None:
            return None
        workers.wait(lambda: stand.probe.ran(sent.jobs) == sent.jobs, BOOT)
    probe = stand.probe
    late = [(probe.started[i] - probe.sent[i]) / 1e6 for i in range(sent.jobs) if probe.started[i]]
    return {**_percentiles(late), "too early": float(sum(1 for wait in late if wait < 0)), "jobs": float(len(late))}


def priorities(stand: Stand, budget: Budget) -> Numbers | None:
    """Two thirds plain jobs, then one third urgent: the rate, and the share of urgent ones in the first third run."""
    job = stand.job("noop")
    sent = stand.send(job, min(budget.jobs, 6000), 60.0, "ranked")
    if sent is None:
        return None
    with stand.worker(job) as workers:
        numbers = _drained(stand, workers, sent.jobs, budget.patience)
    plain, started = sent.jobs * 2 // 3, stand.probe.started
    first = sorted((i for i in range(sent.jobs) if started[i]), key=lambda i: started[i])[: sent.jobs - plain]
    return {"jobs/s": numbers["jobs/s"], "urgent first %": 100 * sum(1 for i in first if i >= plain) / len(first)}


def retries(stand: Stand, budget: Budget) -> Numbers:
    """Every fifth job fails once and is retried as soon as the peer can; the rate counts jobs that finished."""
    job = stand.job("flaky")
    jobs = stand.fill(job, min(budget.jobs, 10_000), budget.seconds).jobs
    with stand.worker(job) as workers:
        workers.wait(lambda: stand.probe.ended(jobs) == jobs, BOOT)
    ends = sorted(moment for moment in stand.probe.finished[:jobs] if moment)
    failed = sum(1 for i in range(0, jobs, 5) if stand.probe.runs[i])
    again = sum(1 for i in range(0, jobs, 5) if stand.probe.finished[i])
    return {"jobs/s": _rate(ends), "retried %": 100 * again / max(1, failed)}


def start_up(stand: Stand, budget: Budget) -> Numbers:
    """From starting the worker's program to the start of the one job that waits."""
    job = stand.job("noop")
    stand.send(job, 1, budget.patience)
    with stand.worker(job) as workers:
        if not workers.wait(lambda: stand.probe.ran(1) == 1, BOOT):
            raise Failed("its worker started no job")
    return {"start s": (stand.probe.started[0] - workers.begun) / 1e9}


def _rows() -> list[Row]:
    sizes = {"10k": 10_000, "200k": 200_000, "1M": 1_000_000}
    lists = {"list-1kB": records(1000), "list-10kB": records(10_000)}
    return [
        Row("enqueue", "Enqueue", enqueue, key=True),
        Row("bulk", "Enqueue", partial(enqueue, way="many"), key=True),
        Row("asyncio", "Enqueue", partial(enqueue, way="gathered")),
        Row("enqueue-10kB", "Enqueue", partial(enqueue, pad="x" * 10_000)),
        *(
            Row(f"{way}-{name}", "Enqueue structured payloads", partial(enqueue, way=how, work="records", pad=pad))
            for name, pad in lists.items()
            for way, how in (("enqueue", "one"), ("bulk", "many"))
        ),
        Row("drain-sync", "Drain", partial(drain, style="sync"), key=True),
        Row("drain-async", "Drain", partial(drain, style="async"), key=True),
        Row("drain-two", "Drain with two processes", partial(drain, count=2)),
        Row("drain-100B", "Drain with payloads", partial(drain, pad="x" * 100)),
        Row("drain-10kB", "Drain with payloads", partial(drain, pad="x" * 10_000), key=True),
        *(
            Row(f"drain-{name}", "Drain with payloads", partial(drain, work="records", pad=pad), key=True)
            for name, pad in lists.items()
        ),
        Row("drain-results", "Drain jobs with results", results, key=True),
        Row("cpu-1ms", "Drain jobs that work or wait", partial(drain, work="cpu")),
        Row("block-5ms", "Drain jobs that work or wait", partial(drain, work="pause", style="sync")),
        Row("await-5ms", "Drain jobs that work or wait", partial(drain, work="pause", style="async")),
        Row("latency", "Latency", latency, key=True, slots=400, rounds=LATENCY_ROUNDS),
        Row("delayed", "Latency", delayed, key=True, slots=1000, rounds=LATENCY_ROUNDS),
        Row("half-load", "Latency under load", loaded, key=True, rounds=LATENCY_ROUNDS),
        Row("start-up", "Latency", start_up, slots=1),
        *(
            Row(f"backlog-{name}", "Backlog", partial(backlog, size=size), slots=size, once=size > 10_000)
            for name, size in sizes.items()
        ),
        Row("priorities", "Order", priorities),
        Row("retries", "Order", retries),
        Row("kills", "Kills", kills, key=True, once=True, slots=SLOTS),
    ]


ROWS = {row.name: row for row in _rows()}


def select(names: str | None) -> list[Row]:
    """Those named; the key ones when nothing is said, or `all`."""
    if not names:
        return [row for row in ROWS.values() if row.key]
    if names == "all":
        return list(ROWS.values())
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in ROWS]:
        raise SystemExit(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return [ROWS[name] for name in wanted]
