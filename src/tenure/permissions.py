"""Permissions: what keys may sign and what built-in handlers may do, as settings; an empty list permits nothing."""

import re
from collections.abc import Iterable
from ipaddress import ip_network
from itertools import pairwise
from typing import Any

from msgspec import Struct

_ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?")
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")
MEGABYTE = 1024 * 1024


class Scope(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a key may sign for; None sets no limit.

    A guard belongs to the scope if its name is one of its queues, handlers or guards, or begins with one and a colon.
    """

    queues: tuple[str, ...] | None = None
    handlers: tuple[str, ...] | None = None
    guards: tuple[str, ...] | None = None

    def fault(self, queue: str, handler: str, guards: Iterable[str] = ()) -> str | None:
        """What is outside the scope, or None."""
        if self.queues is not None and queue not in self.queues:
            return f"queue {queue!r:.120}"
        if self.handlers is not None and handler not in self.handlers:
            return f"handler {handler!r:.220}"
        for guard in guards:
            if not self._covers(guard):
                return f"guard {guard!r:.220}, which belongs to no queue, handler or guard of its scope"
        return None

    def _covers(self, guard: str) -> bool:
        lists = [names for names in (self.queues, self.handlers, self.guards) if names is not None]
        if not lists or "*" in (self.guards or ()):
            return True
        return any(guard == name or guard.startswith(f"{name}:") for names in lists for name in names)


class Argument(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A rule for one argument of a command: one of `fixed`, `one_of`, `pattern` and `integer` says what is allowed.

    An argument that begins with `-` is refused unless it is fixed, listed, or `dash` allows it.
    Only the last arguments may be `optional`, and only the very last may `repeat`.
    """

    fixed: str | None = None
    one_of: tuple[str, ...] = ()
    pattern: str | None = None
    integer: tuple[int, int] | None = None
    dash: bool = False
    optional: bool = False
    repeat: bool = False

    def __post_init__(self) -> None:
        if sum((self.fixed is not None, bool(self.one_of), self.pattern is not None, self.integer is not None)) != 1:
            raise ValueError("an argument needs exactly one of fixed, one_of, pattern and integer")
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ValueError(f"the pattern {self.pattern!r} of an argument is not one: {error}") from None


class Command(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A console command: `module:callable`, which runs in the worker, or an argv for a separate Python process.

    The argv begins with the name of an installed script, or with `-m` and a module.
    """

    run: str | tuple[str, ...]
    arguments: tuple[Argument, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.run, str):
            named = self.run if ":" in self.run else ""
        else:
            named = "".join(self.run[1:2] if self.run[:1] == ("-m",) else self.run[:1]).replace("-", "_")
        if not _ENTRY.fullmatch(named):
            raise ValueError(f"run must be 'module:callable', ['script', …] or ['-m', 'module', …], got {self.run!r}")
        check_order(self.arguments or ())


class Shell(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Programs by absolute path; memory and file sizes are megabytes."""

    allow: tuple[str, ...] = ()
    """Programs that may run, by absolute path; empty allows none."""
    allow_all: bool = False
    """Whether every program may run when `shell.allow` is empty."""
    arguments: dict[str, tuple[Argument, ...]] = {}
    """Per program, rules for its arguments; a program without rules takes any."""
    environment: dict[str, str] = {}
    """Variables that programs get besides `PATH`, `LC_ALL`, `HOME` and `TMPDIR`."""
    timeout: float = 3600.0
    """How long a program may run if its job sets no timeout."""
    max_output: int = 65_536
    """Bytes of output that are kept."""
    cpu_seconds: int | None = None
    """Seconds of processor time; none means no limit."""
    memory: int | None = None
    """Megabytes of address space; none means no limit."""
    file_size: int = 1024
    """Megabytes of the largest file that a program may write."""
    open_files: int = 256
    """Files that a program may have open."""
    processes: int | None = None
    """Processes that the user of the worker may have in total; none means no limit."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Hide the values of variables, which may be secrets."""
        hidden = {"environment": dict.fromkeys(self.environment, "…")}
        return [(name, hidden.get(name, getattr(self, name))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"Shell({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __post_init__(self) -> None:
        for path in (*self.allow, *self.arguments):
            if not path.startswith("/"):
                raise ValueError(f"shell: {path!r} must be an absolute path; nothing is looked up on PATH")
        for path, arguments in self.arguments.items():
            if path not in self.allow:
                raise ValueError(f"shell.arguments names {path!r}, which shell.allow does not")
            check_order(arguments)


class Event(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Events by name."""

    allow: tuple[str, ...] = ()
    """Events that may be published, by name; empty allows none."""


class Http(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Hosts by name: `api.example.com`, `.example.com` for all its subdomains, `*` for every public host.

    `networks` allows private address ranges; addresses of cloud metadata services are never allowed.
    """

    allow: tuple[str, ...] = ()
    """Hosts that requests may go to: a name, `.suffix` or `*`; empty allows none."""
    schemes: tuple[str, ...] = ("https",)
    """Schemes that URLs may have."""
    methods: tuple[str, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    """Methods that requests may use."""
    ports: tuple[int, ...] = (80, 443)
    """Ports that requests may go to."""
    networks: tuple[str, ...] = ()
    """Private networks that requests may go to, such as `10.2.0.0/16`."""
    headers: tuple[str, ...] = ("accept", "accept-language", "authorization", "content-type", "idempotency-key")
    """Headers that a job may set."""
    certificates: str | None = None
    """A file of certificate authorities to trust in addition to those of the system."""
    connect_timeout: float = 5.0
    """How long the connection and its TLS handshake may take."""
    timeout: float = 30.0
    """How long the whole exchange may take."""
    max_head: int = 32_768
    """The largest head of an answer, in bytes."""
    max_body: int = 65_536
    """Bytes of an answer's body that are kept."""
    failing_status: int = 400
    """The lowest status that fails; 600 means that none does."""
    max_retry_after: float = 3600.0
    """The longest delay that a `Retry-After` header can set."""

    def __post_init__(self) -> None:
        for host in self.allow:
            if not _HOST.fullmatch(host):
                raise ValueError(f"http.allow: {host!r} is not a host; write 'api.example.com', '.example.com' or '*'")
        for scheme in self.schemes:
            if scheme not in ("http", "https"):
                raise ValueError(f"http.schemes: {scheme!r} is not one of http, https")
        for network in self.networks:
            try:
                ip_network(network)
            except ValueError as error:
                raise ValueError(f"http.networks: {error}") from None


def check_order(arguments: tuple[Argument, ...]) -> None:
    """Refuse rules that do not decide which rule applies to which argument."""
    for rule, following in pairwise(arguments):
        if rule.repeat or (rule.optional and not following.optional):
            raise ValueError("only the last arguments may be optional, and only the very last may repeat")
