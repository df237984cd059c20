"""What the doctor looks at, and what it finds."""

from typing import Literal

from msgspec import Struct

from tenure.backends.records import Fact

Severity = Literal["ok", "warning", "problem", "not applicable"]


class Finding(Struct, frozen=True):
    """What one check says: `text` is what is so, `advice` what to do about it."""

    check: str
    verdict: Severity
    text: str
    advice: str | None = None


class Keys(Struct, frozen=True, kw_only=True):
    """The ring, and how many waiting messages were sealed with which key; the empty one stands for none.

    `sealed` is None where waiting messages cannot be shown, `whole` is false when only the first were looked at.
    """

    ring: tuple[str, ...]
    verify: bool = True
    sealed: dict[str, int] | None = None
    whole: bool = True


class UnrunnableJob(Struct, frozen=True):
    """A waiting job that no handler of this app would run, and why."""

    id: str
    handler: str
    reason: str


class Sample(Struct, frozen=True):
    """Waiting jobs that were looked at, and those among them that do not fit."""

    seen: int
    misfits: tuple[UnrunnableJob, ...] = ()


class ScheduleFacts(Struct, frozen=True):
    """A schedule that runs here: its latest tick that should be in the ledger by now, and the latest that is."""

    name: str
    due: int | None
    entered: int | None


class Deaths(Struct, frozen=True, kw_only=True):
    """Dead letters there are, and how many died in the last hour and in the last day."""

    letters: int | None = None
    hour: int = 0
    day: int = 0


class Timing(Struct, frozen=True, kw_only=True):
    """Seconds: what the settings say, and how long nearly all runs of each handler took in the last day."""

    lease: float
    stop_grace: float
    default_timeout: float | None = None
    runs: dict[str, float] = {}


class DoctorFacts(Struct, frozen=True, kw_only=True):
    """All that is known; None is what this backend does not have, or what nobody could look at.

    `skew` is by how many seconds the server's clock is ahead of ours, `ahead` by how many those of workers are at
    least ahead of the server's. `unserved` are queues with ready jobs that no live worker listens on, `undeployed` how
    many of the first jobs that wait need which handler that no worker on their queue has.
    """

    place: str
    timing: Timing
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
    sample: Sample | None = None
    unserved: dict[str, int] | None = None
    undeployed: dict[str, int] = {}
    schedules: tuple[ScheduleFacts, ...] | None = None
    deaths: Deaths | None = None
