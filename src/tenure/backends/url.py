"""Opens backends by URL: the scheme selects the kind; its module is imported only then."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tenure.backends.contract import Backend
from tenure.clock import Clock
from tenure.errors import BackendUnavailable, UnknownBackend
from tenure.suggestions import nearest

ENTRY_POINT_GROUP = "tenure.backends"
Opener = Callable[[SplitResult, Clock], Backend]

_BUILT_IN = {
    "memory": "tenure.backends.memory:open_url",
    "sync": "tenure.backends.sync:open_url",
    "servicebus": "tenure.backends.servicebus.url:open_url",
    "beanstalk": "tenure.backends.beanstalk.url:open_url",
    "sqlite": "tenure.backends.sql.sqlite.url:open_url",
    "mysql": "tenure.backends.sql.mysql.url:open_url",
    "mariadb": "tenure.backends.sql.mysql.url:open_url",
    "redis": "tenure.backends.redis.url:open_url",
    "rediss": "tenure.backends.redis.url:open_url",
    "unix": "tenure.backends.redis.url:open_url",
    "postgresql": "tenure.backends.sql.postgresql.url:open_url",
    "postgres": "tenure.backends.sql.postgresql.url:open_url",
}
_IN_PROCESS = ("memory", "sync", "sqlite")  # what needs no server
_registered: dict[str, Opener] = {}


def register_backend(scheme: str, opener: Opener) -> None:
    """Let URLs with this scheme open a backend of your own; an entry point in `tenure.backends` does the same."""
    _registered[scheme] = opener


def open_backend(url: str, clock: Clock) -> Backend:
    """The backend that a URL such as `sqlite:///tenure.db` names."""
    parts = urlsplit(url)
    return _opener(parts.scheme, url)(parts, clock)


def options(parts: SplitResult, known: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """The options of a URL, each checked against its allowed values."""
    found = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in found.items():
        if name not in known:
            raise UnknownBackend(
                f"unknown option {name!r} in the {parts.scheme} URL; known: {', '.join(known) or 'none'}"
            )
        if value.lower() not in known[name]:
            raise UnknownBackend(
                f"option {name}={value!r} in the {parts.scheme} URL must be one of {', '.join(known[name])}"
            )
    return found


def sqlite_file(parts: SplitResult) -> Path:
    """The file that a SQLite URL names."""
    path = Path(unquote(parts.path).removeprefix("/"))
    if parts.netloc or not path.name:
        raise BackendUnavailable(
            "a SQLite URL is sqlite:///file.db (from here) or sqlite:////dir/file.db (from the root); "
            "for jobs that need not survive the process use memory://"
        )
    return path.absolute()


def server_of(url: str) -> tuple[str, int | None] | None:
    """The host or the socket, and the port, that a URL names; None if it names no server, or several."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # several hosts have several ports
        return None
    if parts.scheme == "unix":
        return unquote(parts.path), None
    if parts.scheme in _IN_PROCESS or not parts.hostname or "," in parts.hostname:
        return None
    return parts.hostname, port


def shown_url(url: str) -> str:
    """The URL for people, without secrets; of a SQLite file the whole path, as a relative one hides a wrong folder."""
    parts = urlsplit(url)
    try:
        return f"sqlite:///{sqlite_file(parts)}" if parts.scheme == "sqlite" else without_secrets(url)
    except BackendUnavailable:
        return without_secrets(url)


def _opener(scheme: str, url: str) -> Opener:
    if scheme in _registered:
        return _registered[scheme]
    if scheme in _BUILT_IN:
        module, _, name = _BUILT_IN[scheme].partition(":")
        opener: Opener = getattr(import_module(module), name)
        return opener
    from importlib.metadata import entry_points  # it takes 10 ms, and most schemes are built in

    for point in entry_points(group=ENTRY_POINT_GROUP, name=scheme):
        found: Opener = point.load()
        return found
    known = sorted({*_BUILT_IN, *_registered, *entry_points(group=ENTRY_POINT_GROUP).names})
    guess = nearest(scheme, known)
    advice = f"did you mean {guess}://?" if guess else f"use one of {', '.join(f'{name}://' for name in known)}"
    raise UnknownBackend(f"no backend for the URL {without_secrets(url)!r}; {advice}")


def without_secrets(url: str) -> str:
    """A URL without user, password and options, for messages; of a connection string only the address."""
    parts = urlsplit(url)
    if parts.netloc or url.partition(":")[2].startswith("//"):
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "=" in parts.path:  # the members of a connection string, in any order
        members = [part for part in parts.path.split(";") if part.lower().startswith("endpoint=")]
        return f"{parts.scheme}:{';'.join(members)}"
    address = parts.path.rpartition("@")[2]
    return f"{parts.scheme}:{address}" if parts.scheme else address
