"""Apps for tests of the built-in handlers."""

import pytest

from tenure import Tenure


@pytest.fixture
def make_app():
    """Makes apps with settings of their own, and closes them."""
    apps = []

    def make(url="memory://", **settings):
        apps.append(Tenure(url, **settings))
        return apps[-1]

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def outcome_of():
    """Runs one job to its end on the memory backend, and gives its record."""

    def run(app, handler, payload, **options):
        id = app.define(handler, payload).options(**options).dispatch()
        app.worker(burst=True).run()
        return app.backend.jobs.find(id)

    return run
