"""The benchmark of the dashboard runs with some thousand jobs, and finds every page."""

from contextlib import nullcontext

import pytest

from benchmarks.dashboard import Load, PageTime, Result, measure, table
from benchmarks.places import server_of

SHORT = Load(ended=2000, waiting=1000, dead=50, requests=2, seconds=0.5)


@pytest.mark.parametrize("server", [None, "postgres_url", "mariadb_url", "redis_url"])
def test_every_page_is_timed_on_every_server(server: str | None, request: pytest.FixtureRequest) -> None:
    url = None if server is None else request.getfixturevalue(server).partition("?")[0]
    with nullcontext() if url is None else server_of(url):
        result = measure(SHORT)
    assert {"overview", "jobs", "jobs, text", "job, dead", "dead", "schedules", "settings"} <= set(result.pages)
    assert len(result.pages) == 22
    assert all(0 < page.p50 <= page.p95 and page.cached > 0 for page in result.pages.values())
    assert result.one_viewer > 0


def test_a_slow_page_is_marked_in_the_table() -> None:
    pages = {"jobs": PageTime(8.0, 12.5, 20.0, 0.4, 7.0), "dead": PageTime(90.0, 130.0, 500.0, 0.4, 80.0)}
    shown = table({"sqlite": Result(2.0, pages, 0.10, 0.12)}).splitlines()
    assert shown[1].split() == ["jobs", "8.0", "/", "12.5"]
    assert shown[2].split() == ["dead", "90.0", "/", "130.0", "!"]
    assert shown[-1].split() == ["ten", "to", "one", "1.20"]
