"""Deployment: the app, its environment and its backend, as the top bar shows them."""

import re
from pathlib import PurePath
from urllib.parse import urlsplit

from msgspec import Struct, structs

from tenure.app.tenure import Tenure
from tenure.backends.contract import Backend

_NAMES = {
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "mysql": "MySQL",
    "mariadb": "MariaDB",
    "redis": "Redis",
    "rediss": "Redis",
    "unix": "Redis",
    "beanstalk": "Beanstalkd",
    "servicebus": "Azure Service Bus",
    "memory": "in memory",
    "sync": "at once, in this process",
}


class Deployment(Struct, frozen=True, kw_only=True):
    """What does not change while the dashboard runs."""

    app: str
    environment: str
    backend: str
    schema: int | None = None


def place_of(app: Tenure) -> Deployment:
    """What the settings and the backend tell; raises if the backend does not answer."""
    place, backend = place_without_backend(app), app.backend
    return structs.replace(
        place,
        backend=_server_name(backend) or place.backend,
        schema=None if backend.schema is None else backend.schema.version()[0],
    )


def place_without_backend(app: Tenure) -> Deployment:
    settings = app.settings
    return Deployment(app=app_name(settings.app), environment=settings.environment, backend=_backend_name(settings.url))


def app_name(location: str | None) -> str:
    """The name of the package at `module:attr`."""
    return (location or "tenure").partition(":")[0].partition(".")[0]


def _backend_name(url: str) -> str:
    """The kind of backend; of a database in a file its name too. Hosts are not shown to everybody."""
    parts = urlsplit(url)
    name = _NAMES.get(parts.scheme, parts.scheme)
    return f"{name}, {PurePath(parts.path).name}" if parts.scheme == "sqlite" else name


def _server_name(backend: Backend) -> str | None:
    """The name and the main version that a server tells, such as PostgreSQL 15."""
    facts = () if backend.server is None else backend.server.facts()
    told = next((fact.text for fact in facts if fact.about == "server"), None)
    return None if told is None else re.sub(r"^(\w+ \d+).*", r"\1", told)
