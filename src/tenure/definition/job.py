"""Job: what is to be done, where and when, as one frozen value."""

from datetime import datetime
from typing import Any, Literal, Unpack

from msgspec import Struct, structs

from tenure.definition.duration import is_length, to_moment
from tenure.definition.options import FOLLOWERS, JobFields, check_key, check_queue, normalise
from tenure.definition.retry import Backoff
from tenure.errors import InvalidJob
from tenure.guards.rate import parse

DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 5
DEFAULT_MAX_CRASHES = 3
MAX_TEXT = 255  # characters of a name, an id or an idempotency key: databases index them
_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("name", (str, type(None)), "text or None"),
    ("idempotency_key", (str, type(None)), "text or None"),
    ("id", (str, type(None)), "text or None"),
    ("key", (str, type(None)), "text or None"),
    ("rate", (str, type(None)), "text or None"),
    ("breaker", (str, type(None)), "text or None"),
    ("unique", (str, type(None)), "text or None"),
    ("single_instance", (bool,), "True or False"),
    ("backoff", (Backoff, type(None)), "a Backoff or None"),
    ("meta", (dict,), "a dict"),
)


class Job(Struct, frozen=True, kw_only=True):
    """Immutable; `job.replace(priority=8)` gives a changed copy.

    `at` and `delay` say the earliest start, `expires_at` the latest.
    `then`, `on_failure` and `finally_` are enqueued when it ends so, `chain` one after the other while they succeed.
    `idempotency_key`, `single_instance`, `at_most`, `rate` and `breaker` are guards: what must hold for it to start.
    `unique` keeps a second one out while one waits or runs; `duplicate` says what becomes of the second.
    `cron`, `timezone`, `enabled`, `environments` and `depends_on` matter to schedules only and do not travel.
    A job enqueued twice is two jobs, unless it was given an `id`.
    """

    handler: str
    payload: Any = None
    queue: str = DEFAULT_QUEUE
    name: str | None = None
    priority: int = DEFAULT_PRIORITY
    max_retries: int = 0
    timeout: float | None = None
    delay: float = 0.0
    at: datetime | None = None
    expires_at: datetime | None = None
    single_instance: bool = False
    idempotency_key: str | None = None
    idempotency_ttl: float | None = None
    key: str | None = None
    at_most: int | None = None
    rate: str | None = None
    breaker: str | None = None
    unique: str | None = None
    duplicate: Literal["return", "refuse"] = "return"
    backoff: Backoff | None = None
    max_crashes: int = DEFAULT_MAX_CRASHES
    meta: dict[str, Any] = {}
    then: tuple["Job", ...] = ()
    on_failure: tuple["Job", ...] = ()
    finally_: tuple["Job", ...] = ()
    chain: tuple["Job", ...] = ()
    id: str | None = None
    cron: str | None = None
    timezone: str | None = None
    enabled: bool = True
    environments: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_key(self.handler)
        check_queue(self.queue)
        self._check_numbers()
        self._check_times()
        for name, kinds, words in _KINDS:
            if not isinstance(getattr(self, name), kinds):
                raise InvalidJob(f"{name} must be {words}, got {getattr(self, name)!r}")
        for name in ("name", "idempotency_key", "id", "key", "breaker", "unique"):
            if len(getattr(self, name) or "") > MAX_TEXT:
                raise InvalidJob(f"{name} has {len(getattr(self, name))} characters, more than {MAX_TEXT}")
        for name in FOLLOWERS if self.has_followers else ():
            for follower in getattr(self, name):
                if not isinstance(follower, Job):
                    raise InvalidJob(f"{name} takes jobs, as build() makes them, got {follower!r}")

    @property
    def has_followers(self) -> bool:
        return bool(self.then or self.on_failure or self.finally_ or self.chain)

    def _check_numbers(self) -> None:
        if type(self.priority) is not int or not 0 <= self.priority <= 9:
            raise InvalidJob(f"priority must be a whole number from 0 to 9 (higher runs sooner), got {self.priority!r}")
        if type(self.max_retries) is not int or self.max_retries < 0:
            raise InvalidJob(f"max_retries must be a whole number of at least 0, got {self.max_retries!r}")
        if type(self.max_crashes) is not int or self.max_crashes < 0:
            raise InvalidJob(f"max_crashes must be a whole number of at least 0, got {self.max_crashes!r}")

        if self.at_most is not None and (type(self.at_most) is not int or self.at_most < 1):
            raise InvalidJob(
                f"at_most must be a whole number of at least 1, or None for no limit, got {self.at_most!r}"
            )
        if self.rate is not None:
            parse(self.rate)
        if self.duplicate not in ("return", "refuse"):
            raise InvalidJob(f'duplicate must be "return" or "refuse", got {self.duplicate!r}')

    def _check_times(self) -> None:
        if self.idempotency_ttl is not None and not (is_length(self.idempotency_ttl) and self.idempotency_ttl > 0):
            raise InvalidJob(f"idempotency_ttl must be more than 0 seconds, got {self.idempotency_ttl!r}")
        if self.timeout is not None and not (is_length(self.timeout) and self.timeout > 0):
            raise InvalidJob(f"timeout must be more than 0 seconds, or None for no limit, got {self.timeout!r}")
        if not is_length(self.delay):
            raise InvalidJob(f"delay must be seconds of at least 0, got {self.delay!r}; replace() reads other forms")
        if self.delay and self.at is not None:
            raise InvalidJob("a job takes either delay or at, not both")
        if self.at is not None:
            to_moment(self.at, "at")
        if self.expires_at is not None:
            to_moment(self.expires_at, "expires_at")

    def replace(self, **fields: Unpack[JobFields]) -> "Job":
        """A copy with some fields changed; setting one of `delay` and `at` clears the other."""
        values = normalise(fields)  # type: ignore[arg-type]
        if values.get("delay"):
            values.setdefault("at", None)
        elif values.get("at"):
            values.setdefault("delay", 0.0)
        return structs.replace(self, **values)
