"""Every setting, its default and its meaning; the reference page is generated from the texts below the fields."""

import re
from typing import Any, Literal

from msgspec import Struct

from tenure.permissions import Command, Event, Http, Scope, Shell
from tenure.recipients import Mail, Notification
from tenure.redaction import SENSITIVE

_SECRET = frozenset({"keys", "url", "url_override", "store", "backends", "outboxes", "dashboard"})


class Retention(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long ended jobs, per state, their payloads, statistics and the audit log are kept."""

    done: float = 7.0
    """Days to keep the record of a job that succeeded; 0 keeps it for ever."""
    cancelled: float = 7.0
    """The same for jobs that were cancelled."""
    expired: float = 7.0
    """The same for jobs that expired before they could run."""
    dead: float = 30.0
    """Days to keep a dead letter; 0 keeps it for ever."""
    statistics: float = 30.0
    """Days to keep the statistics that `app.statistics` and `tenure health` show; 0 keeps them for ever."""
    audit: float = 365.0
    """Days to keep the records of what users did; 0 keeps them for ever."""
    payloads: float = 1.0
    """Days to keep the payload and arguments of an ended job, on SQL databases; 0 erases them some minutes after the
    end. Other backends keep none, and dead letters keep theirs."""
    payload_bytes: int = 1_000_000_000
    """How many bytes the payloads of ended jobs may take together, on SQL databases; the oldest are erased first."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) >= 0:
                kept = "" if name.startswith("payload") else " days (0 keeps for ever)"
                raise ValueError(f"retention.{name} must be at least 0{kept}")


class LaneSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A lane of `tenure work`: its queues, and how their jobs run."""

    queues: tuple[str, ...] = ()
    """Its queues, most urgent first; at least one, and each queue in one lane only."""
    weights: dict[str, float] = {}
    """How often each queue comes first, relative to the others; the default is 1; without weights the order is
    strict."""
    runner: str = "process"
    """How its handlers run: `process`, `threads`, `event_loop`, or, in one lane only, `inline`."""
    concurrency: int = 0
    """How many of its jobs run at once; 0 is the default of the runner, as for `--concurrency`."""


class DashboardUser(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user of the dashboard, and what this user may see and do."""

    password: str = ""
    """The hash of the password, which `tenure dashboard --hash-password` prints."""
    role: Literal["viewer", "operator", "admin"] = "viewer"
    """What the user may do: a `viewer` reads, an `operator` acts, an `admin` also deletes and reads the settings."""
    queues: tuple[str, ...] | None = None
    """The only queues whose jobs the user sees and changes; none means all."""
    actions: tuple[str, ...] | None = None
    """The only actions of the role that are allowed; none means all."""

    def __post_init__(self) -> None:
        if not self.password.startswith("scrypt$"):
            raise ValueError(
                "the password of a dashboard user must be a hash; `tenure dashboard --hash-password` prints one"
            )


class DashboardToken(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token with which a program uses the API of the dashboard."""

    sha256: str = ""
    """The hash of the token; `tenure dashboard --new-token NAME` prints both."""
    role: Literal["viewer", "operator", "admin"] = "viewer"
    """As for a user."""
    queues: tuple[str, ...] | None = None
    """As for a user."""
    actions: tuple[str, ...] | None = None
    """As for a user."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(
                "sha256 of a dashboard token must have 64 hexadecimal digits; `tenure dashboard --new-token NAME` "
                "prints them"
            )


class DashboardSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who may use the dashboard."""

    users: dict[str, DashboardUser] = {}
    """The users that sign in with a password, by name, see below."""
    tokens: dict[str, DashboardToken] = {}
    """The tokens of programs, by a name that you choose, see below; it is written to the audit log."""
    session: float = 12.0
    """Hours after which a user must sign in again."""
    trusted_origins: tuple[str, ...] = ()
    """Origins of other sites whose forms and scripts may act, such as `https://ops.example.com`; also needed where a
    proxy changes the header `Host`."""

    def __post_init__(self) -> None:
        if not 0 < self.session <= 24 * 365:
            raise ValueError("dashboard.session must be more than 0 hours, and at most a year")


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every setting and its default; the reference page of the docs is generated from these fields."""

    url: str = "sqlite:///tenure.db"
    """The backend that stores the jobs: `sqlite:///file.db`, `sqlite:////folder/file.db`, `postgresql://…`, `mysql://…`,
    `redis://…`, `beanstalk://…`, `servicebus:…`, `memory://` or `sync://`."""
    url_override: str | None = None
    """Replaces `url`, even one that the code gives to `Tenure(...)`; for tests and emergencies. A URL, or a name from
    `backends`. The option `--url` of a command goes before it; `store` and `backends` stay as they are."""
    backends: dict[str, str] = {}
    """More backends by name, for `enqueue(job, backend="name")`."""
    outboxes: tuple[str, ...] = ()
    """The databases of applications whose [outbox](../how-to/outbox.md) a relay empties: URLs of SQLite, PostgreSQL,
    MySQL or MariaDB."""
    store: str | None = None
    """Where guards are stored, a URL or a name from `backends`; by default the backend itself. For brokers such as
    Beanstalkd it also stores the list of workers, records of jobs, statistics and the ledger of schedules; a broker
    requires it, except in the environment `development`."""
    app: str | None = None
    """Where the command line finds the app, as `module:object`."""
    modules: tuple[str, ...] = ()
    """Modules and packages that the command line imports, so that their handlers are registered."""
    environment: str = "production"
    """The name of the environment where this runs; a schedule may be limited to some environments."""
    timezone: str = "UTC"
    """The time zone of schedules that do not set their own, such as `Europe/Madrid`."""
    schedules: str | None = None
    """A function as `module:function` that registers schedules; it is called with the app before schedules are read."""
    queues: tuple[str, ...] = ("priority", "default")  # a second, empty queue costs 1 to 3 µs a job in a lease of 100
    """The queues of a worker without queues or lanes of its own, most urgent first; on Azure Service Bus, where each
    queue must be created, the default is `default` alone."""
    strict_queues: bool = False
    """Whether queues that the app does not know are refused, on enqueue, by workers and by commands; the app knows
    the queues of its settings, queue classes and aliases, and the default queues of its handlers."""
    lanes: dict[str, LaneSettings] = {}
    """The lanes of `tenure work` by name, see below; they replace `queues`."""
    aliases: dict[str, str] = {}
    """Other names for queues, in upper or lower case, that jobs, workers and commands accept."""
    allow: dict[str, tuple[str, ...]] = {}
    """Per queue, the handlers that may run there; a queue that is not listed allows all, an empty list allows none."""
    keys: tuple[str, ...] = ()
    """The key ring, each key as `kid:base64url`; the first signs, all verify."""
    scopes: dict[str, Scope] = {}
    """Per key, the `queues` and `handlers` it may sign for, and more names of `guards`; a missing key has no limit."""
    audience: str | None = None
    """The audience of messages; a worker refuses messages for another audience."""
    verify: bool = True
    """Whether signatures are checked; `false` accepts any message in the queue."""
    max_bytes: int = 262_144
    """The largest message in bytes, when it is sealed and when it is opened; at least 1024."""
    max_retries: int = 0
    """Retries of a job, unless its handler or its options set them."""
    backoff: dict[str, Any] = {}
    """The fields of `Backoff` for jobs and handlers without their own policy; empty means exponential."""
    rates: dict[str, str | int] = {}
    """Per queue, how many jobs may start: `"60/min"`, `"10/s"`, or a whole number per minute."""
    breaker_threshold: int = 5
    """Failures in a row that open a circuit breaker, also the one around the backend."""
    breaker_cooldown: float = 60.0
    """How long a circuit breaker stays open before a probe; for the breaker around the backend, the longest time."""
    default_timeout: float | None = None
    """The timeout of an attempt, unless its job sets one; none means no limit."""
    unknown_timeout: float = 3600.0
    """How long a message with an unknown handler, key or version is postponed before it is dead-lettered."""
    on_dead: str | None = None
    """The handler of a job that is enqueued for every dead letter."""
    lease: float = 15.0
    """How long a lease lasts without renewal, and so how soon a vanished worker is detected; at least 1."""
    suspect_after: int = 3
    """After how many workers or shared child processes that vanished in a row a job is a
    [suspect](../explanation/delivery.md#attempts-and-crashes), which runs alone; at least 1."""
    stop_grace: float = 30.0
    """How long running jobs may continue after the worker got the signal to stop, before they are handed back."""
    recycle_after: int | None = None
    """How many jobs a child process, or an `inline` worker, runs before it is replaced; none means no limit."""
    max_memory: float | None = None
    """Megabytes above which a child process, or an `inline` worker, is replaced after a job; none means no limit."""
    probe_path: str | None = None
    """A file in which a worker, a supervisor, a scheduler or a relay writes its state for `tenure health --probe`, see
    [run in containers](../how-to/run-in-containers.md#probes); give each of them its own."""
    refresh_interval: float = 300.0
    """The time between two calls of `refresh` on a queue class."""
    hook_timeout: float = 60.0
    """How long one call of `setup` or `refresh` may take before it is interrupted."""
    metrics: str | None = "memory"
    """Where [counters](events-and-metrics.md#counters) go: `memory`, [`opentelemetry`](../how-to/use-opentelemetry.md),
    `none`, [`statsd://host:port`](../how-to/use-statsd.md), or `module:attribute` of your own collector; an empty
    variable means `none`."""
    tracing: bool | Literal["link", "parent"] = False
    """Whether enqueues and attempts become [OpenTelemetry](../how-to/use-opentelemetry.md) spans: with `link` (or
    `true`) an attempt begins a trace that links to its enqueue, with `parent` it is in the trace of the enqueue."""
    log_format: str = "pretty"
    """How the command line logs: `pretty`, readable lines, or `json`, one object per line; see
    [logs](../how-to/logs.md)."""
    log_keep: int = 0
    """How many files of a dated log are kept, including the current one; 0 keeps all."""
    execution_log: str | None = None
    """A file to which workers write a line of JSON for each attempt and each end of a job; its name may contain the
    date, as in `jobs-%Y-%m-%d.log`."""
    max_output: int = 65_536
    """How many characters of the result and the output of a handler are kept, in the history and the execution log."""
    retention: Retention = Retention()
    """Days to keep ended jobs, see below."""
    sensitive: tuple[str, ...] = SENSITIVE
    """If the name of a member contains one of these words, its value is masked wherever it is shown."""
    command: dict[str, Command] = {}
    """Console commands by name, each with `run` and `arguments`."""
    shell: Shell = Shell()
    """What `shell` jobs may do, see below."""
    event: Event = Event()
    """What `event` jobs may do, see below."""
    http: Http = Http()
    """What `url` jobs may do, see below."""
    notifications: dict[str, Notification] = {}
    """Who is notified how jobs end, by a name that you choose, see below."""
    mail: Mail = Mail()
    """The server that sends the mail of notifications, see below."""
    dashboard: DashboardSettings = DashboardSettings()
    """Who may use the dashboard, see below."""

    def __post_init__(self) -> None:
        if not self.queues:
            raise ValueError("queues must name at least one queue")
        if self.timezone != "UTC":
            _check_zone(self.timezone)
        if not self.lease >= 1:
            raise ValueError("lease must be at least 1 second")
        if self.suspect_after < 1:
            raise ValueError("suspect_after must be at least 1")
        if not self.stop_grace >= 0:
            raise ValueError("stop_grace must be at least 0 seconds")
        for name in ("refresh_interval", "hook_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0 seconds")
        if self.max_bytes < 1024:
            raise ValueError("max_bytes must be at least 1024")
        self._check_limits()

    def _check_limits(self) -> None:
        if self.recycle_after is not None and self.recycle_after < 1:
            raise ValueError("recycle_after must be at least 1 job; leave it out for no limit")
        if self.max_memory is not None and not self.max_memory > 0:
            raise ValueError("max_memory must be more than 0 MB; leave it out for no limit")
        if self.breaker_threshold < 1 or not self.breaker_cooldown > 0:
            raise ValueError("breaker_threshold must be at least 1, and breaker_cooldown more than 0 seconds")
        if self.log_format not in ("pretty", "json"):
            raise ValueError(f"log_format must be 'pretty' or 'json', not {self.log_format!r}")
        if self.log_keep < 0:
            raise ValueError("log_keep must be at least 0 files (0 keeps all)")
        if not 0 <= self.max_output <= 65_536:
            raise ValueError("max_output must be between 0 and 65536 characters")
        if self.default_timeout is not None and not self.default_timeout > 0:
            raise ValueError("default_timeout must be more than 0 seconds; leave it out for no limit")

    @property
    def is_overridden(self) -> bool:
        """Whether the URL is that of `url_override`."""
        override = self.url_override
        return override is not None and self.url == self.backends.get(override, override)

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Hide the secrets, because settings appear in logs and on screens."""
        return [(name, "…" if name in _SECRET else getattr(self, name)) for name in self.__struct_fields__]


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo  # slow to import, and rarely needed

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError(f"timezone must be a name such as 'Europe/Madrid' or 'UTC', not {name!r}") from None
