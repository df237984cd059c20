"""What tests with a browser share: the browser, and tracebacks that Python can print beside it."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.browser.visitor import started_chromium
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Ends with the module: while Playwright runs, no test in this process could use an event loop of its own."""
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(started_chromium())
        except Missing as missing:
            raise absent(missing) from missing
        yield browser


@pytest.hookimpl(wrapper=True, tryfirst=True)
def plain_tracebacks(item: pytest.Item) -> Any:
    """For its own tracebacks, pytest parses the source, which Python 3.11 cannot do in a greenlet.

    A conftest names it `pytest_runtest_makereport`.
    """
    options = item.config.option
    style, options.tbstyle = options.tbstyle, "native"
    try:
        return (yield)
    finally:
        options.tbstyle = style
