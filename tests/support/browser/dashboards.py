"""Dashboards: one on a loopback port, for users whom a cookie names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.requests import Request

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Dashboard
from tenure.web.application import application
from tests.support.browser.serving import served


@contextmanager
def served_dashboard(dashboard: Dashboard, users: Mapping[str, Access]) -> Iterator[str]:
    """The address of a dashboard; the cookie `user` says who looks at it."""

    def authenticate(request: Request) -> Access | None:
        return users.get(request.cookies.get("user", ""))

    with served(application(dashboard, authenticate)) as url:
        yield url
