"""Fixtures of browser tests: a shop on a backend, its dashboard on a port, and pages of Chromium that look at it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from playwright.sync_api import Browser

from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.core import Dashboard
from tenure.wire.signing import new_key
from tests.support.browser.dashboards import served_dashboard
from tests.support.browser.fixtures import chromium, plain_tracebacks
from tests.support.browser.shops import Shop, copied_shop, fill_template, filled_shop
from tests.support.browser.visitor import Visitor, visitor
from tests.support.dashboard_limits import raise_limits

__all__ = ["chromium"]  # a fixture

Visit = Callable[..., Visitor]
_URLS = {"postgresql": "postgres_url", "mariadb": "mariadb_url", "redis": "redis_url", "beanstalk": "beanstalk_url"}


pytest_runtest_makereport = plain_tracebacks


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser on a busy machine needs minutes for all pages."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """The kind of the backend of `shop_on`; tests name others with indirect parameters."""
    return getattr(request, "param", "sqlite")


@pytest.fixture(scope="session")
def shop_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_template(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def shop_on(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """A filled shop on a backend of its own."""
    if backend == "sqlite":
        with copied_shop(request.getfixturevalue("shop_template"), tmp_path) as shop:
            yield shop
        return
    settings: dict[str, Any] = {"keys": (new_key().dump(),)}
    url = request.getfixturevalue(_URLS[backend])
    if backend == "beanstalk":
        url = f"{url}?ttr=21600&prefix=test-{token_hex(6)}."
        settings["store"] = f"sqlite:///{tmp_path}/store.db?synchronous=normal"
    with filled_shop(url, **settings) as shop:
        yield shop


@pytest.fixture
def users() -> dict[str, Access]:
    """Who may use the dashboard, by the name that the cookie `user` says; a test may add more."""
    return {"ops": everything("ops")}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short action is answered with its result, and a search reads all, however busy the machine is."""
    raise_limits(monkeypatch)


@pytest.fixture
def dashboard(shop_on: Shop) -> Iterator[Dashboard]:
    made = Dashboard(shop_on.app)
    yield made
    made.close()


@pytest.fixture
def address(dashboard: Dashboard, users: dict[str, Access]) -> Iterator[str]:
    """Where the dashboard of the shop is."""
    with served_dashboard(dashboard, users) as url:
        yield url


@pytest.fixture
def visit(chromium: Browser, address: str) -> Iterator[Visit]:
    """Makes visitors: visit(user="ops", size=PHONE, theme="dark", scripts=False); at the end none has a problem."""
    made: list[Visitor] = []

    def start(user: str = "ops", **options: Any) -> Visitor:
        found = visitor(chromium, address, **options)
        found.context.add_cookies([{"name": "user", "value": user, "url": address}])
        made.append(found)
        return found

    yield start
    for each in made:
        each.context.close()
    assert [problem for each in made for problem in each.problems] == []
