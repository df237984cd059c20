"""Every setting, its default and its meaning; the reference page is made from the texts below the fields."""

from typing import Any

from msgspec import Struct

from tenure.permissions import Command, Event, Http, Scope, Shell
from tenure.recipients import Mail, Notification
from tenure.redaction import SENSITIVE

_SECRET = frozenset({"keys", "url", "store", "backends"})


class Retention(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Days that ended jobs are kept, per state, and what workers counted; 0 keeps for ever."""

    done: float = 7.0
    """Days to keep the history row of a job that succeeded; 0 keeps it for ever."""
    cancelled: float = 7.0
    """The same for jobs that were cancelled."""
    expired: float = 7.0
    """The same for jobs that were too late to run."""
    dead: float = 30.0
    """Days to keep a dead letter; 0 keeps it for ever."""
    statistics: float = 30.0
    """Days to keep what workers counted, for `app.statistics` and `tenure health`; 0 keeps it for ever."""

    def __post_init__(self) -> None:
        for state in self.__struct_fields__:
            if not getattr(self, state) >= 0:
                raise ValueError(f"retention.{state} must be at least 0 days (0 keeps for ever)")


class LaneSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A lane of `tenure work`: queues, and how their jobs run; a concurrency of 0 is what suits the runner."""

    queues: tuple[str, ...] = ()
    """Its queues, most urgent first; at least one, and none that another lane has."""
    weights: dict[str, float] = {}
    """How often each queue comes first; one without a weight weighs 1, and without any the order is strict."""
    runner: str = "process"
    """Where its handlers run: `process`, `threads`, `event_loop`, or `inline` in one lane."""
    concurrency: int = 0
    """How many of its jobs run at once; 0 is what suits the runner, as for `--concurrency`."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every setting and its default; the reference page of the docs is made from these fields."""

    url: str = "sqlite:///tenure.db"
    """The backend where jobs wait: `sqlite:///file.db`, `sqlite:////folder/file.db`, `postgresql://…`, `mysql://…`,
    `redis://…`, `beanstalk://…`, `servicebus:…`, `memory://` or `sync://`."""
    backends: dict[str, str] = {}
    """Further backends by name, for `enqueue(job, backend="name")`."""
    store: str | None = None
    """Where guards are kept, a URL or a name from `backends`; unless set, in the backend itself. Beside backends that
    forget, such as Beanstalkd, also the roster of workers, records of jobs, statistics and the ledger of schedules;
    those need it, except in the environment `development`."""
    app: str | None = None
    """Where the command line finds the app, as `module:object`."""
    modules: tuple[str, ...] = ()
    """Modules and packages that the command line imports, so that their handlers register."""
    environment: str = "production"
    """The name of the place where this runs; schedules may be kept to some of them."""
    timezone: str = "UTC"
    """The zone whose clock schedules follow that do not name their own, such as `Europe/Madrid`."""
    schedules: str | None = None
    """A function as `module:function` that is called with the app to register schedules, before they are first read."""
    queues: tuple[str, ...] = ("default",)
    """The queues of a worker that was given neither queues nor lanes, most urgent first."""
    lanes: dict[str, LaneSettings] = {}
    """The lanes of `tenure work` by name, see below; they take the place of `queues`."""
    aliases: dict[str, str] = {}
    """Other names for queues, in any case, understood by workers."""
    allow: dict[str, tuple[str, ...]] = {}
    """Per queue, the handlers that may run there; a queue that is not named allows all, an empty list allows none."""
    keys: tuple[str, ...] = ()
    """The key ring, each key as `kid:base64url`; the first signs, all verify."""
    scopes: dict[str, Scope] = {}
    """Per key, the `queues` and `handlers` it may sign for; a key or a list that is not named is not limited."""
    audience: str | None = None
    """For whom messages are sealed; a worker refuses those for another audience."""
    verify: bool = True
    """Whether signatures are checked; `false` accepts what anybody wrote into the queue."""
    max_bytes: int = 262_144
    """The size of the largest message, when it is made and when it is read; at least 1024."""
    max_retries: int = 0
    """Retries of a job whose handler and options do not say."""
    backoff: dict[str, Any] = {}
    """The fields of `Backoff` for jobs and handlers without a policy of their own; empty means exponential."""
    rates: dict[str, str | int] = {}
    """Per queue, how many jobs may start: `"60/min"`, `"10/s"`, or a whole number a minute."""
    breaker_threshold: int = 5
    """Failures in a row that open a circuit breaker, also the one around the backend."""
    breaker_cooldown: float = 60.0
    """How long a circuit breaker stays open before a probe is let through; for the one around the backend, at most."""
    default_timeout: float | None = None
    """The timeout of an attempt whose job does not say; none means no limit."""
    unknown_patience: float = 3600.0
    """How long a message with an unknown handler, key or version is postponed before it is dead-lettered."""
    on_dead: str | None = None
    """The handler of a job that is enqueued for every dead letter."""
    lease: float = 15.0
    """How long a lease lasts without renewal, and so how soon a vanished worker is noticed; at least 1."""
    stop_grace: float = 30.0
    """How long running jobs may take to finish when the worker is told to stop, before they are handed back."""
    recycle_after: int | None = None
    """Jobs after which a child process, or an `inline` worker, is replaced; none means never."""
    max_memory: float | None = None
    """Megabytes above which a child process, or an `inline` worker, is replaced after a job; none means no limit."""
    refresh_interval: float = 300.0
    """The time between two calls of `refresh` on a queue class."""
    hook_timeout: float = 60.0
    """How long one call of `setup` or `refresh` may take before it is interrupted."""
    metrics: str | None = "memory"
    """Where [counters](events-and-metrics.md#counters) go: `memory`, `none`, or `module:attribute` of a collector of
    yours; an empty variable is `none`."""
    tracing: bool = False
    """Whether enqueues and runs are spans of OpenTelemetry, see [trace jobs](../how-to/monitor.md#trace-jobs)."""
    log_format: str = "pretty"
    """How the command line logs: `pretty`, a line for people, or `json`, an object a line; see
    [logs](../how-to/logs.md)."""
    log_keep: int = 0
    """How many files of a dated log are kept, the current one included; 0 keeps all."""
    execution_log: str | None = None
    """A file to which workers write a line of JSON for each attempt and each end of a job; its name may hold the date,
    as in `jobs-%Y-%m-%d.log`."""
    max_output: int = 65_536
    """Characters that are kept of what a handler returns and prints, in the history and in the execution log."""
    retention: Retention = Retention()
    """Days that ended jobs are kept, see below."""
    sensitive: tuple[str, ...] = SENSITIVE
    """Words in the names of members whose values are masked wherever they are shown."""
    command: dict[str, Command] = {}
    """Console commands by name, each with `run` and `arguments`."""
    shell: Shell = Shell()
    """What `shell` jobs may do, see below."""
    event: Event = Event()
    """What `event` jobs may do, see below."""
    http: Http = Http()
    """What `url` jobs may do, see below."""
    notifications: dict[str, Notification] = {}
    """Who is told how jobs end, by a name of yours, see below."""
    mail: Mail = Mail()
    """The server that takes mail from notifications, see below."""

    def __post_init__(self) -> None:
        if not self.queues:
            raise ValueError("queues must name at least one queue")
        if self.timezone != "UTC":
            _check_zone(self.timezone)
        if not self.lease >= 1:
            raise ValueError("lease must be at least 1 second")
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

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Without the secrets: settings end up in logs and on screens."""
        return [(name, "…" if name in _SECRET else getattr(self, name)) for name in self.__struct_fields__]


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo  # only for those who name one

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError(f"timezone must be a name such as 'Europe/Madrid' or 'UTC', not {name!r}") from None
