"""Dashboards on the backends where pages must work."""

from datetime import UTC, datetime

import pytest

from tenure import Tenure
from tenure.app.dashboard.core import Dashboard
from tenure.testing import FakeClock
from tenure.wire.signing import new_key
from tests.support.backend_urls import empty_backend
from tests.support.dashboard_limits import raise_limits

EVERYWHERE = ["memory", "sqlite", "redis", "postgres"]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy machine must not end a search early, nor leave an answer out."""
    raise_limits(monkeypatch)


@pytest.fixture
def moment():
    """A clock in the middle of a slot of the statistics."""
    return FakeClock(datetime(2026, 11, 15, 14, 32, 8, tzinfo=UTC))


@pytest.fixture(params=["memory", "sqlite"])
def place(request, tmp_path):
    """The URL of a backend; parametrize it with EVERYWHERE where the backend matters."""
    return empty_backend(request, tmp_path)


@pytest.fixture
def shop(place):
    """An app with handlers on several queues, by the clock of its backend."""
    with Tenure(place, keys=[new_key().dump()], environment="development", rates={"emails": 320}) as app:

        @app.job(queue="emails")
        def send(user: int) -> None: ...

        @app.job(queue="invoices", breaker="payments", max_retries=0)
        def charge(order: int) -> None:
            raise ConnectionError("refused")

        @app.job(queue="reports", single_instance=True)
        def report(month: int) -> None: ...

        yield app


@pytest.fixture
def view(shop):
    """Makes dashboards, each of which reads afresh."""
    made = []

    def make(app=None):
        made.append(Dashboard(app or shop))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def timed(moment):
    """An app in memory at a known time."""
    with Tenure("memory://", clock=moment, environment="development") as app:
        yield app
