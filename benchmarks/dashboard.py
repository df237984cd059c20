"""What the pages of the dashboard cost with a million ended jobs and a million waiting ones.

`python -m benchmarks.dashboard [--servers sqlite,redis] [--ended N] [--waiting N]` fills each backend, then measures
the server time of every page, and the CPU of ten viewers beside that of one. The server is this process: requests go
through the ASGI application, without a network.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from benchmarks.filled import QUEUES, add_handlers, count_slots, fill_history, put_jobs
from benchmarks.places import place, server_of
from tenure import Tenure
from tenure.app.dashboard.core import Dashboard
from tenure.web.mount import AsgiDashboard
from tenure.web.users import users_of, with_owner
from tenure.wire.signing import new_key
from tests.support.servers import started

SERVERS = ("sqlite", "postgresql", "mariadb", "redis")
DEAD = 20_000
LIMIT_MS = 100.0
POLL_SECONDS = 2.0


class Load(NamedTuple):
    """How much to fill in, how often to ask each page, and how long to watch viewers."""

    ended: int
    waiting: int
    dead: int = DEAD
    requests: int = 30
    seconds: float = 20.0


class PageTime(NamedTuple):
    """Milliseconds of a page that is made anew; `first` is the first one, after the start or an action of a user.

    `cached` is the median of an answer to a second viewer, `cpu` that of the CPU time of this process, which a busy
    machine does not change much.
    """

    p50: float
    p95: float
    first: float
    cached: float
    cpu: float


class Result(NamedTuple):
    fill_seconds: float
    pages: dict[str, PageTime]
    one_viewer: float  # CPU seconds per second
    ten_viewers: float


class Client:
    """Sends requests to an ASGI application in this process, with the session of a user."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._cookie = ""

    async def sign_in(self, link: str) -> None:
        _, answered = await self.get(link)
        self._cookie = answered["set-cookie"].partition(";")[0]

    async def get(self, address: str, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str]]:
        """The status and the headers of the answer."""
        path, _, query = address.partition("?")
        given = {"host": "127.0.0.1", "cookie": self._cookie, **(headers or {})}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        answer: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.append(message)

        await self._application(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in answer[0]["headers"]}
        return answer[0]["status"], found


def addresses(app: Tenure) -> dict[str, str]:
    """What to ask: every page, and the jobs page with the filters that people use."""
    jobs = app.parts().jobs
    assert jobs is not None
    done = jobs.page("done", QUEUES[0], limit=1)[0][0].id
    waiting = jobs.page("ready", QUEUES[1], limit=1)[0][0].id
    letters = app.parts().dead_letters
    dead = letters.page(limit=1)[0].id if letters is not None else done
    filters: dict[str, dict[str, str]] = {
        "jobs": {},
        "jobs, ready": {"state": "ready"},
        "jobs, done": {"state": "done"},
        "jobs, dead": {"state": "dead"},
        "jobs, one queue": {"queue": QUEUES[3]},
        "jobs, one handler": {"handler": "h7"},
        "jobs, no such handler": {"handler": "nobody"},
        "jobs, text": {"text": "name 77"},
        "jobs, since an hour": {"since": "1h"},
    }
    return {
        "overview": "/",
        "overview, 7 days": "/?window=7d",
        **{name: f"/jobs?{urlencode(given)}" for name, given in filters.items()},
        "job, done": f"/jobs/{done}",
        "job, ready": f"/jobs/{waiting}",
        "job, dead": f"/jobs/{dead}",
        **{name: f"/{name}" for name in ("dead", "queues", "schedules", "workers", "guards", "doctor", "audit")},
        "settings": "/settings",
    }


def measure(load: Load) -> Result:
    """Fill the place of this moment, and measure."""
    with place() as (url, _), Tenure(url, keys=(new_key().dump(),)) as app:
        begun = time.perf_counter()
        add_handlers(app)
        fill_history(app, url, load.ended, load.dead)
        put_jobs(app, load.waiting)
        count_slots(app)
        filled = time.perf_counter() - begun
        users = with_owner(users_of(app), "bench")
        assert users.links is not None
        with closing(AsgiDashboard(app, users=users)) as web:
            client = Client(web)
            asyncio.run(client.sign_in(f"/link/{users.links.new()}"))
            pages = asyncio.run(_times(client, web.dashboard, addresses(app), load))
            known = [address for name, address in addresses(app).items() if name in pages]
            one, ten = (asyncio.run(_cpu(client, known, viewers, load.seconds)) for viewers in (1, 10))
        return Result(filled, pages, one, ten)


async def _times(client: Client, dashboard: Dashboard, given: dict[str, str], load: Load) -> dict[str, PageTime]:
    """Each page several times, each time as if some seconds had passed since the last viewer, then from the cache.

    The figures stay: a thread reads them, and no request waits for them.
    """
    found: dict[str, PageTime] = {}
    for name, address in given.items():
        status, _ = await client.get(address)  # what it imports is not what it costs
        if status != 200:
            print(f"  {name}: status {status} of {address}", file=sys.stderr)
            continue
        dashboard.changes += 1
        dashboard.sources.cache.clear()
        first = await _milliseconds(client, address)
        made, cached, cpu = [], [], []
        for _ in range(load.requests):
            _let_seconds_pass(dashboard)
            before = time.process_time()
            made.append(await _milliseconds(client, address))
            cpu.append((time.process_time() - before) * 1000)
            cached.append(await _milliseconds(client, address))
        median = statistics.median
        found[name] = PageTime(median(made), _percentile(made, 0.95), first, median(cached), median(cpu))
    return found


def _let_seconds_pass(dashboard: Dashboard) -> None:
    """Let the rendered pages, and the answers that viewers share for some seconds, be too old."""
    dashboard.changes += 1
    for name, known in list(dashboard.sources.cache.items()):
        if isinstance(known, tuple):
            dashboard.sources.cache[name] = (0.0, *known[1:])


async def _milliseconds(client: Client, address: str) -> float:
    begun = time.perf_counter()
    await client.get(address)
    return (time.perf_counter() - begun) * 1000


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def _cpu(client: Client, known: list[str], viewers: int, seconds: float) -> float:
    """The CPU seconds of this process per second while so many viewers poll all pages."""
    until = time.monotonic() + seconds

    async def view(delay: float) -> None:
        etags: dict[str, str] = {}
        await asyncio.sleep(delay)
        while time.monotonic() < until:
            for address in known:
                headers = {"if-none-match": etags[address]} if address in etags else {}
                _, answered = await client.get(address, headers)
                if etag := answered.get("etag"):
                    etags[address] = etag
            await asyncio.sleep(POLL_SECONDS)

    before = time.process_time()
    await asyncio.gather(*(view(number * POLL_SECONDS / viewers) for number in range(viewers)))
    return (time.process_time() - before) / seconds


@contextmanager
def _at(server: str) -> Iterator[None]:
    """Measure on a server of this kind meanwhile."""
    if server == "sqlite":
        yield
        return
    with started(server) as running, server_of(running.url):
        yield


def table(results: Mapping[str, Result]) -> str:
    """One line a page, p50 and p95 of each backend, slow ones marked."""
    names = list(dict.fromkeys(name for result in results.values() for name in result.pages))
    lines = [f"{'milliseconds, p50 / p95':<26}" + "".join(f"{server:>20}" for server in results)]
    for name in names:
        cells = [_cell(result.pages.get(name)) for result in results.values()]
        lines.append(f"{name:<26}" + "".join(f"{cell:>20}" for cell in cells))
    figures = {
        "fill, s": lambda result: f"{result.fill_seconds:,.0f}",
        "CPU of one viewer": lambda result: f"{result.one_viewer:.1%}",
        "CPU of ten viewers": lambda result: f"{result.ten_viewers:.1%}",
        "ten to one": lambda result: f"{result.ten_viewers / max(result.one_viewer, 1e-9):.2f}",
    }
    for name, text in figures.items():
        lines.append(f"{name:<26}" + "".join(f"{text(result):>20}" for result in results.values()))
    return "\n".join(lines)


def _cell(page: PageTime | None) -> str:
    if page is None:
        return "–"
    return f"{page.p50:,.1f} / {page.p95:,.1f}{' !' if page.p95 > LIMIT_MS else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--servers", default=",".join(SERVERS), help="which backends, separated by commas")
    parser.add_argument("--ended", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/dashboard.json"))
    given = parser.parse_args()
    results: dict[str, Result] = {}
    for server in given.servers.split(","):
        print(f"{server}: {given.ended:,} ended and {given.waiting:,} waiting jobs", flush=True)
        with _at(server):
            results[server] = measure(Load(given.ended, given.waiting))
        print(table({server: results[server]}), flush=True)
    if len(results) > 1:
        print(table(results))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    told = {
        server: {**result._asdict(), "pages": {k: v._asdict() for k, v in result.pages.items()}}
        for server, result in results.items()
    }
    given.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
