"""The facts that the doctor collects, and its findings."""

from typing import Literal

from msgspec import Struct

from tenure.backends.records import Fact, PayloadSize

Severity = Literal["ok", "warning", "problem", "not applicable"]


class Finding(Struct, frozen=True):
    """The result of one check: `text` says what was found, `advice` what to do about it."""

    check: str
    verdict: Severity
    text: str
    advice: str | None = None


class Keys(Struct, frozen=True, kw_only=True):
    """The key ring, and how many waiting messages were sealed with which key; the key "" means no signature.

    `sealed` is None if the backend cannot list waiting messages; `whole` is false if only the first ones were read.
    """

    ring: tuple[str, ...]
    verify: bool = True
    sealed: dict[str, int] | None = None
    whole: bool = True


class UnrunnableJob(Struct, frozen=True):
    """A waiting job that no handler of this app can run, and why."""

    id: str
    handler: str
    reason: str


class Sample(Struct, frozen=True):
    """How many waiting jobs were read, and which of them this app cannot run."""

    seen: int
    unrunnable: tuple[UnrunnableJob, ...] = ()


class ScheduleFacts(Struct, frozen=True):
    """A schedule of this environment: its latest tick that should be in the ledger by now, and the latest that is."""

    name: str
    due: int | None
    entered: int | None


class Deaths(Struct, frozen=True, kw_only=True):
    """The number of dead letters, and how many jobs died in the last hour and in the last day."""

    letters: int | None = None
    hour: int = 0
    day: int = 0


class OutboxFacts(Struct, frozen=True, kw_only=True):
    """What waits in an outbox; `failure` says why it cannot be read.

    `untried_age` is the age of the oldest job that no relay has tried, in seconds.
    """

    name: str
    jobs: int = 0
    refused: int = 0
    untried_age: float = 0.0
    failure: str | None = None


class Timing(Struct, frozen=True, kw_only=True):
    """Seconds: the settings, and the 99th percentile of the run time of each handler in the last day."""

    lease: float
    stop_grace: float
    default_timeout: float | None = None
    runs: dict[str, float] = {}


class DoctorFacts(Struct, frozen=True, kw_only=True):
    """All facts; None means that this backend does not have it, or that it could not be read.

    `skew` is how many seconds the server's clock is ahead of the clock of this host. `ahead` is how many seconds at
    least the clock of each worker is ahead of the server's. `unserved` are queues with ready jobs on which no live
    worker listens. `undeployed` counts, among the first waiting jobs, those of each handler that no worker on their
    queue has. `key_file` is the file of the signing key, and `key_file_fault` why it is not used.
    `payload_bytes` is the setting that limits `kept_payloads`, the payloads of ended jobs.
    `is_overridden` says that `url_override` has replaced the URL of the app.
    """

    place: str
    timing: Timing
    is_overridden: bool = False
    environment: str = "production"
    failure: str | None = None
    schema: tuple[int, int] | None = None
    steps_taken: tuple[str, ...] = ()
    missing_indexes: tuple[str, ...] | None = None
    server: tuple[Fact, ...] = ()
    sqlite: tuple[int, ...] | None = None
    skew: float | None = None
    ahead: dict[str, float] = {}
    keys: Keys | None = None
    key_file: str | None = None
    key_file_fault: str | None = None
    sample: Sample | None = None
    unserved: dict[str, int] | None = None
    undeployed: dict[str, int] = {}
    schedules: tuple[ScheduleFacts, ...] | None = None
    deaths: Deaths | None = None
    kept_payloads: PayloadSize | None = None
    payload_bytes: int = 0
    outboxes: tuple[OutboxFacts, ...] = ()
