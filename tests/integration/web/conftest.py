"""The dashboard of an app on SQLite."""

import pytest

from tenure.app.dashboard.access import everything
from tenure.web.mount import AsgiDashboard
from tests.support.dashboard_limits import raise_limits
from tests.support.web_app import USERS, browser_of, make_app


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy machine must not end a search early, nor make a short action a long one."""
    raise_limits(monkeypatch)


@pytest.fixture
def app(tmp_path):
    with make_app(tmp_path, dashboard=USERS) as app:
        yield app


@pytest.fixture
def opened():
    """Makes dashboards that are closed at the end."""
    made = []

    def make(app, access=None, **options):
        made.append(AsgiDashboard(app, access, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def web(app, opened):
    """A dashboard whose user may do all, known by a hook."""
    return opened(app, lambda request: everything("ada"))


@pytest.fixture
def admin(web):
    """The browser of this user."""
    return browser_of(web)
