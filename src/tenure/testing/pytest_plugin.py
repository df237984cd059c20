"""The pytest plugin: the fixture `tenure`, an app in memory with a clock that the test moves.

pytest loads this module in every project that has Tenure installed, so it imports the rest of Tenure only when a test
asks for a fixture.
"""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenure.testing.app_under_test import AppUnderTest

_NO_APP = """the fixture `tenure` does not know your app. Name it in pytest's settings:

    [tool.pytest.ini_options]
    tenure_app = "shop.jobs:app"

or return it from a fixture in conftest.py:

    @pytest.fixture
    def tenure_app():
        return app
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tenure_app", "where the fixture `tenure` finds the app, as module:attr")


@pytest.fixture
def tenure_app(pytestconfig: pytest.Config) -> Any:
    """The app that the fixture `tenure` tests; a project may replace this fixture by its own."""
    location = pytestconfig.getini("tenure_app") or _app_of_settings(pytestconfig)
    if not location:
        pytest.fail(_NO_APP, pytrace=False)
    if (root := str(pytestconfig.rootpath)) not in sys.path:
        sys.path.insert(0, root)
    try:
        app = resolve_name(location)
    except (ImportError, AttributeError, ValueError) as error:
        pytest.fail(f"the app at {location!r} cannot be imported: {type(error).__qualname__}: {error}", pytrace=False)
    if not hasattr(app, "override"):
        pytest.fail(f"{location!r} is of type {type(app).__qualname__}, not a Tenure app", pytrace=False)
    app.discover(*app.settings.modules)
    return app


@pytest.fixture
def tenure(tenure_app: Any) -> "Iterator[AppUnderTest]":
    """The app in memory, with a clock of its own; undone after the test."""
    from tenure.testing.app_under_test import AppUnderTest

    with AppUnderTest(tenure_app) as under_test:
        yield under_test


def _app_of_settings(config: pytest.Config) -> str | None:
    """The setting `app`, which the command line uses too; imported by name, as tests are a layer below settings."""
    location: str | None = import_module("tenure.settings").load(environment=os.environ, folder=config.rootpath).app
    return location
