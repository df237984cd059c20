"""Store: one verb, `change`, under every guard.

A change names keys and a pure function of their states; a store applies it in one step, by its own clock.
No guard reads first and writes later. All state expires, and what is expired is never seen again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

ALL = 1 << 31  # every job that is parked
PROMISE = 5_000_000  # µs that a job which was woken has to take what it waited for, before the next is woken


class Step(Struct, frozen=True, gc=False):
    """What becomes of one key: `state` is None when nothing is left to remember.

    `expires` is when the state is forgotten, `wake_at` when a waiter should try again if nothing changes before
    (0: at once), `wake` how many parked jobs to wake now. Times are UTC microseconds.
    """

    state: bytes | None
    expires: int = 0
    wake_at: int = 0
    wake: int = 0


class Decision(NamedTuple):
    """The answer to whoever asked, and a step for each key, None for one that stays as it is."""

    answer: Any
    steps: Sequence[Step | None] = ()


Decide = Callable[[Sequence[bytes | None], int], Decision]


class Change(Struct, frozen=True):
    """Keys, and what to do with them: `decide` is pure, and may be called again after a conflict."""

    keys: tuple[str, ...]
    decide: Decide


@runtime_checkable
class Store(Protocol):
    """Where the states of guards are kept; see the conformance suite for what each verb promises."""

    def change(self, changes: Sequence[Change]) -> list[Any]:
        """Apply changes in order, each in one step; returns their answers."""
        ...

    def look(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        """The time by the store's clock, and the states that these keys have."""
        ...

    def sweep(self, limit: int) -> int:
        """Forget up to `limit` expired states that nobody waits for; returns how many."""
        ...


class Row(Struct, gc=False):
    """A key as a store keeps it; `waiting` says that jobs may be parked under it."""

    state: bytes | None = None
    expires: int = 0
    wake_at: int = 0
    waiting: bool = False

    def seen(self, now: int) -> bytes | None:
        return self.state if self.expires > now else None


class Effects(NamedTuple):
    """What a batch of changes comes to: the answers, the rows to write, and how many to wake under which keys."""

    answers: list[Any]
    rows: dict[str, Row]
    wakes: dict[str, int]


def effects(changes: Iterable[Change], rows: Mapping[str, Row], now: int) -> Effects:
    """Decide a batch on rows that were read; a later change sees what an earlier one did."""
    answers: list[Any] = []
    written: dict[str, Row] = {}
    wakes: dict[str, int] = {}
    for change in changes:
        current = [written.get(key) or rows.get(key) or _NOTHING for key in change.keys]
        answer, steps = change.decide([row.seen(now) for row in current], now)
        answers.append(answer)
        for key, row, step in zip(change.keys, current, steps, strict=False):
            if step is not None:
                written[key] = Row(step.state, step.expires, step.wake_at, row.waiting)
                if step.wake and row.waiting:
                    wakes[key] = min(ALL, wakes.get(key, 0) + step.wake)
    return Effects(answers, written, wakes)


def woken(row: Row, count: int, now: int) -> None:
    """Note in a row that so many of its waiters were woken: the next is woken when they had their chance."""
    if count:
        row.wake_at = max(row.wake_at, now + PROMISE)
    else:
        row.waiting = False


_NOTHING = Row()
