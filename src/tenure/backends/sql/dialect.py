"""Dialect: what really differs between databases, so that everything else is said once.

A dialect knows how a batch goes into one statement, how rows are taken without waiting for others, how a transaction
begins and ends, and whose clock counts. It decides nothing: order, suspects and lost leases are the backend's matter.
Statements that only people and the janitor need are written once, in neutral words (see `statements`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack
from tenure.definition.failure import Failure

T = TypeVar("T")
S = TypeVar("S", bound="Suspected")
Row = tuple[Any, ...]
Rows = Callable[[str, Mapping[str, Any]], list[Row]]
Pair = tuple[str, int]  # the id and the fence of a lease: together they are never used twice
KEPT_FAILURES = 25


class Grant(NamedTuple):
    """To whom leases are given, and for how long."""

    owner: str
    seconds: float


class Claim(NamedTuple, Generic[T]):
    """What one queue granted, and whether a suspect was met: nothing behind it may go first or along."""

    granted: list[T]
    met_suspect: bool


class Expired(Struct, array_like=True, gc=False):
    """A lease that ran out, as it goes back to its place."""

    key: int
    id: str
    suspect: bool


class Watch(Protocol):
    """One wait for work."""

    def wait(self, seconds: float) -> None:
        """Until there may be something new, but no longer than this."""
        ...

    def close(self) -> None: ...


class Dialect(Protocol):
    """One kind of database; `name` is also the folder of its migrations."""

    name: str
    place: str
    schema_exists: str
    index_names: str  # those that are there and valid
    replay_jobs: str
    reserve_guards: str | None  # makes rows to lock for keys that have none; none where there is one writer
    keep_guards: str
    keep_records: str

    def now(self) -> int:
        """UTC microseconds by the clock that deadlines go by."""
        ...

    def put(self, messages: Sequence[Message]) -> list[str]: ...

    def put_in(self, raw: Any, messages: Sequence[Message], wake: bool) -> list[str]:
        """As put, on a driver's connection that is somebody else's."""
        ...

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        """Put what is chosen, in one transaction with whatever choosing does; may choose again, as transact may."""
        ...

    def until_work(self, queues: Sequence[str]) -> float:
        """Seconds until something can be leased: 0 when it can be now, infinity when nothing is known."""
        ...

    def watch(self) -> Watch: ...

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]: ...

    def archive(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        """End the jobs whose leases are held by this owner; returns which those were."""
        ...

    def give_back(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]: ...

    def bury(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]: ...

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]: ...

    def expire(self, queue: str, limit: int) -> list[Expired]:
        """Return up to so many expired leases to their place, as suspects."""
        ...

    def read(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        """The rows of one neutral statement."""
        ...

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Neutral statements that happen whole or not at all; may be called again when the database asks for it."""
        ...

    def hold(self, work: Callable[[Rows], T]) -> T:
        """As `transact`, for what need not outlive those who use the database."""
        ...

    def time_in(self, rows: Rows) -> int:
        """The time inside a transaction, after it has waited for what it locks."""
        ...

    def tell(self, rows: Rows, queues: Iterable[str]) -> None:
        """Have those who wait for these queues look again, once the transaction has ended."""
        ...

    def migrating(self) -> AbstractContextManager[Rows]:
        """Statements that nobody else runs at the same time."""
        ...

    def close(self) -> None: ...


def fill(queues: Sequence[str], limit: int, claim: Callable[[str, int, bool], Claim[T]]) -> list[T]:
    """Claim from one queue after the other; a suspect goes alone, and holds back what is behind it."""
    granted: list[T] = []
    for queue in queues:
        found = claim(queue, limit - len(granted), not granted)
        granted += found.granted
        if found.met_suspect or len(granted) >= limit:
            break
    return granted


class Suspected(Protocol):
    """A row that tells whether its job is a suspect."""

    @property
    def suspect(self) -> int: ...


def up_to_suspect(rows: list[S], alone: bool) -> tuple[list[S], bool]:
    """The rows before the first suspect, or that one by itself, so that its fate is known to be its own."""
    for index, row in enumerate(rows):
        if row.suspect:
            return rows[: index or alone], True
    return rows, False


def failures(verdicts: Iterable[Nack | Abandon]) -> list[tuple[str, int, Failure]]:
    """Id, fence and failure of those that have one."""
    return [(v.lease.id, v.lease.fence, v.failure) for v in verdicts if v.failure]
