"""Dialect: what differs between databases, so that everything else is written once.

A dialect knows how a batch goes into one statement, how rows are claimed without waiting for other workers, how a
transaction begins and ends, and whose clock counts. The order of jobs and lost leases are decided by `SqlBackend`.
Statements outside the hot path are written once, in the neutral notation that `jobs.py` explains.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from tenure.backends.ends import EndWait, Wakeup
from tenure.backends.messages import Abandon, Ack, Lease, Message, Nack
from tenure.definition.failure import Failure

T = TypeVar("T")
Row = tuple[Any, ...]
Rows = Callable[[str, Mapping[str, Any]], list[Row]]
Pair = tuple[str, int]  # the id and the fence of a lease: together they are never used twice
Wait = Callable[[float], bool]
PROMOTE_BATCH = 1000  # delayed jobs that fall due at one instant become ready over several claims, each of them short
KNOWN_IDS = "SELECT id FROM tenure_job WHERE id IN :ids"


class Grant(NamedTuple):
    """Who gets the leases, and for how long."""

    owner: str
    seconds: float


class Expired(Struct, array_like=True, gc=False):
    """A lease that expired; `vanished` is the count that it was granted with."""

    key: int
    id: str
    vanished: int
    attempts: int
    fence: int


class Dialect(Protocol):
    """One kind of database; `name` is also the folder of its migrations."""

    name: str
    location: str
    table_exists: str
    index_names: str  # selects the names of the indexes that exist and are valid
    keep_last_key: str | None  # runs before jobs are deleted, where their keys could be used again
    reserve_guards: str | None  # creates rows to lock for keys that have none; None where there is only one writer
    save_guards: str
    save_records: str
    save_record_tags: str

    def now(self) -> int:
        """UTC microseconds by the clock that deadlines use."""
        ...

    def put(self, messages: Sequence[Message]) -> list[str]: ...

    def put_on(self, connection: Any, messages: Sequence[Message], wake: bool) -> list[str]:
        """As `put`, on a driver connection of the caller."""
        ...

    async def put_on_async(self, connection: Any, messages: Sequence[Message], wake: bool) -> list[str]:
        """As `put_on`, on an async connection of the caller."""
        ...

    async def holders_on_async(self, connection: Any, uniques: Sequence[str]) -> dict[str, str]:
        """The ids of the jobs that wait or run with these `unique` texts, those of the caller's transaction too."""
        ...

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        """Put the messages that `choose` returns, in one transaction with what it does; it may be called again."""
        ...

    def until_work(self, queues: Sequence[str]) -> float:
        """Seconds until a job can be leased: 0 when one can be leased now, infinity when no job is waiting."""
        ...

    def watch(self, queues: Sequence[str]) -> AbstractContextManager[Wait]:
        """A function that waits for a change, at most so many seconds; it returns whether there is new work for sure.

        Another worker may be faster.
        """
        ...

    def watch_ends(self, wakeup: Wakeup) -> AbstractContextManager[EndWait]:
        """As `JobEnds.watch`."""
        ...

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]: ...

    def ack(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        """End the jobs whose leases this owner holds; return those leases."""
        ...

    def ack_members(self, owner: str, verdicts: Sequence[Ack], batches: list[int], ended: list[int]) -> set[int]:
        """End members of `batches`; return the batches that this owner holds. Those in `ended` have no other member."""
        ...

    def nack(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]: ...

    def abandon(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]: ...

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]: ...

    def expire(self, queue: str, limit: int, suspect_after: int) -> list[Expired]:
        """Return up to `limit` jobs whose lease expired to their place; those that expired so often wait apart."""
        ...

    def read(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        """The rows of one neutral statement."""
        ...

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run neutral statements in one transaction; `work` is called again when the database asks for a retry."""
        ...

    def transact_volatile(self, work: Callable[[Rows], T]) -> T:
        """As `transact`, for what may be lost when the host of the database stops."""
        ...

    def time_in(self, rows: Rows) -> int:
        """The time inside a transaction, after it has waited for the rows that it locks."""
        ...

    def renew_keys(self, rows: Rows, keys: Sequence[int], now: int) -> None:
        """Give these dead letters the next keys, in this order, and make their jobs due now."""
        ...

    def wake_workers(self, rows: Rows, queues: Iterable[str]) -> None:
        """Wake the workers that wait for these queues, once the transaction has ended."""
        ...

    def migration(self) -> AbstractContextManager[Rows]:
        """Runs statements while no other process migrates this database."""
        ...

    def close(self) -> None: ...


def stored_tags(message: Message) -> str | None:
    """The tags of a message as they are stored with its job."""
    return ",".join(message.tags) or None


def failures(verdicts: Iterable[Nack | Abandon]) -> list[tuple[str, int, Failure]]:
    """Id, fence and failure of the verdicts that have one."""
    return [(v.lease.id, v.lease.fence, v.failure) for v in verdicts if v.failure]


START = (-32768, 0)
Place = tuple[int, int]


class ClaimCursor:
    """Where the last claim from each queue ended, so that the next claim skips the deleted rows before it.

    Deleted rows stay in the index until the server removes them, and an old snapshot of another client can delay that.
    A cursor hides jobs that come back or arrive before it, so it does not live long: the dialect claims from the start
    of the queue after every short claim, after every return, and as often as that costs at most a tenth of the time.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[Place, float]] = {}

    def start_of(self, queue: str) -> Place:
        """Where the next claim starts."""
        place, until = self._places.get(queue, (START, 0.0))
        return place if time.monotonic() < until else START

    def move_to(self, queue: str, last: Place, started: float, from_start: bool) -> None:
        """A full claim ended at `last`."""
        now = time.monotonic()
        _, until = self._places.get(queue, (START, 0.0))
        self._places[queue] = (last, now + 10 * (now - started) if from_start else until)

    def drop(self, *queues: str) -> None:
        """The next claims from these queues start at the first row."""
        for queue in queues:
            self._places.pop(queue, None)

    def drop_all(self) -> None:
        self._places.clear()
