"""One of many processes that race for the same keys: `python -m tenure.testing.conformance.racing URL NUMBER`.

Prints a line for each thing it wins; nobody releases anything, so that whoever wins has won for good.
"""

import sys
from collections.abc import Sequence
from typing import cast

from tenure.backends.opening import open_backend
from tenure.clock import SystemClock
from tenure.guards.breaker import Breaker
from tenure.guards.changes import settling, taking
from tenure.guards.guard import Ending, Guard
from tenure.guards.idempotency import Once
from tenure.guards.rate import AtRate, Rate
from tenure.guards.slots import AtMost
from tenure.guards.states import Holder
from tenure.guards.store import Change, Decision, Store

HOUR = 3600.0
RACES: dict[str, Guard] = {
    "lock": AtMost("lock:race"),
    "slot": AtMost("most:race", 3),
    "key": Once("once:race"),
    "probe": Breaker("breaker:race", threshold=1, cooldown=0.0),
}
BUCKET = AtRate("rate:race", Rate(5, 1, 2))
_TRIES = 20


def race(store: Store, holder: Holder) -> list[str]:
    store.change([settling([RACES["probe"]], holder, Ending(over=True, succeeded=False))])
    answers = store.change([taking([guard], holder) for guard in RACES.values()])
    won = [f"{what} {holder.id}" for what, answer in zip(RACES, answers, strict=True) if answer is None]
    for number in range(_TRIES):
        token = Holder(f"{holder.id}.{number}", 1, HOUR)
        started = store.change([_timed(taking([BUCKET], token))])[0]
        won += [f"token {started}"] if started else []
    return won


def _timed(change: Change) -> Change:
    """The same, but the answer is the time at which it was let through."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        answer, steps = change.decide(states, now)
        return Decision(now if answer is None else None, steps)

    return Change(change.keys, decide)


def main(url: str, number: str) -> None:
    backend = open_backend(url, SystemClock())
    lines = race(cast(Store, backend), Holder(number, 1, HOUR))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
