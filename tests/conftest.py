"""Hypothesis profiles (the same examples on every CI run, fresh ones on a laptop) and the real servers."""

import os

from hypothesis import settings

pytest_plugins = ["tests.servers.fixtures"]

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("dev", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=20_000)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")
