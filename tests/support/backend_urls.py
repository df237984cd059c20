"""The URL of an empty backend for a test, by the name with which the test is parametrized."""

from pathlib import Path

import pytest


def empty_backend(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """`memory`, `sqlite`, `redis`, `postgres` or `mariadb` is `request.param`."""
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
        case "redis":
            return str(request.getfixturevalue("redis_url"))
        case name:
            url, empty = request.getfixturevalue(f"{name}_place")
            empty()
            return str(url)
