"""Fixtures of all tests, and Hypothesis profiles: the same examples on every CI run, fresh ones on a laptop."""

import os
import signal

import pytest
from hypothesis import settings

from tests.support import waiting

pytest_plugins = ["tests.support.second_try", "tests.support.builtin_apps", "tests.support.servers.fixtures"]

collect_ignore = ["support"]  # it has a Django project, whose tests Django itself runs

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("dev", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=20_000)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


def pytest_configure():
    """A run that `nohup` or a shell started in the background ignores these signals, and its processes inherit that."""
    defaults = {
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGQUIT: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    for number, handler in defaults.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture
def eventually():
    """Waits until a condition holds, and fails when it does not come to hold."""
    return waiting.eventually
