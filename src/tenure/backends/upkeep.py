"""What it takes to run a backend: its schema and history, the workers that are alive, and what it says of itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from tenure.metrics.tally import Tally
from tenure.wire.signing import Ring


@runtime_checkable
class Maintained(Protocol):
    """Backends that keep history and need it trimmed."""

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        """Delete up to `limit` ended jobs of this state, and queue, that finished before this time; how many."""
        ...


@runtime_checkable
class Statistical(Protocol):
    """Backends that keep what workers count, so that statistics cost the same however long the history is."""

    def note_tallies(self, tallies: Sequence[Tally]) -> None:
        """Keep these, in the place of what the same worker noted of the same slot, queue and handler."""
        ...

    def tallies(self, since: int, until: int) -> list[Tally]:
        """Those whose slot began at or after `since` and before `until`, the oldest first."""
        ...

    def fold_tallies(self, before: int, limit: int) -> int:
        """Add up what up to `limit` workers' tallies say of slots before this time; returns how many there were."""
        ...

    def drop_tallies(self, before: int, limit: int) -> int:
        """Delete up to `limit` tallies of slots before this time; returns how many."""
        ...


class LaneRecord(Struct, frozen=True, kw_only=True):
    """A lane of a worker as others see it; one that was made for a single command has no name."""

    name: str
    queues: tuple[str, ...]
    runner: str
    concurrency: int


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """A worker as others see it; `id` is new at every start, times are UTC microseconds, `jobs` are ids it holds.

    `runner` and `concurrency` sum up its lanes; `rates` are jobs that it ended a second, by queue, over about a minute.
    `live` is how many jobs of each queue had not ended, whoever holds them, at `live_at`, if this worker counted them.
    `handlers` and `kids` are the handlers and keys that it has, by name; workers of older releases do not tell.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    runner: str
    concurrency: int
    started_at: int
    seen_at: int
    jobs: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    lanes: tuple[LaneRecord, ...] = ()
    rates: dict[str, float] = {}
    live: dict[str, int] = {}
    live_at: int = 0
    handlers: tuple[str, ...] = ()
    kids: tuple[str, ...] = ()


@runtime_checkable
class Roster(Protocol):
    """Backends that know which workers are alive."""

    def greet(self, worker: WorkerRecord, seconds: float) -> None:
        """This worker is alive; it is forgotten unless it says so again within this time."""
        ...

    def part(self, id: str) -> None:
        """This worker has stopped."""
        ...

    def workers(self) -> list[WorkerRecord]:
        """Those that are alive, the longest running first."""
        ...


class Fact(Struct, frozen=True):
    """Something to know about a backend as it is set up now; a `warning` is one that somebody should act on."""

    about: str
    text: str
    warning: bool = False


@runtime_checkable
class Candid(Protocol):
    """Backends whose server decides how much is promised, and that ask it."""

    def facts(self) -> list[Fact]:
        """What `tenure health` tells: how durable a put is, how workers are woken."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """Backends that keep our facts beside messages where others could write them, and so mark them."""

    def mark_with(self, ring: Ring) -> None:
        """Mark, and check marks, with the app's keys."""
        ...


@runtime_checkable
class Migratable(Protocol):
    """Backends with a schema of their own; `steps_taken` names the steps since it was opened, opening included."""

    steps_taken: list[str]

    def schema_version(self) -> tuple[int, int]:
        """The version that is stored and the one this release needs."""
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to date; returns the names of the steps taken."""
        ...


@runtime_checkable
class Indexed(Protocol):
    """Backends that are only quick while their indexes are there."""

    def missing_indexes(self) -> list[str]:
        """The names of those that are not, or that are not valid."""
        ...


@runtime_checkable
class Embedded(Protocol):
    """Backends that live in a file of ours, with room for a key beside it."""

    key_path: Path


@runtime_checkable
class OnSqlite(Protocol):
    """Backends in a file of SQLite, and the version of that library."""

    sqlite: tuple[int, ...]
