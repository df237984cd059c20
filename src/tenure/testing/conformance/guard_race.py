"""Many processes that race for the same keys: `python -m tenure.testing.conformance.guard_race URL COUNT`.

Each process prints a line for each guard it takes; no process releases a guard, so each guard has one winner.
They start together: all are forked from one that has imported everything, and wait for the same signal.
"""

import os
import sys
from collections.abc import Sequence
from typing import cast

from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.guards.breaker import Breaker
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import Ending, Guard, settle_guards, take_guards
from tenure.guards.idempotency import Idempotency
from tenure.guards.rate_limit import Rate, RateLimit
from tenure.guards.states import Holder
from tenure.guards.store import Change, Decision, Store

HOUR = 3600.0
RACES: dict[str, Guard] = {
    "lock": ConcurrencyLimit("lock:race"),
    "slot": ConcurrencyLimit("most:race", 3),
    "key": Idempotency("once:race"),
    "probe": Breaker("breaker:race", threshold=1, cooldown=0.0),
}
BUCKET = RateLimit("rate:race", Rate(5, 1, 2))
_TRIES = 20


def race(store: Store, holder: Holder) -> list[str]:
    store.change([settle_guards([RACES["probe"]], holder, Ending(over=True, succeeded=False))])
    answers = store.change([take_guards([guard], holder) for guard in RACES.values()])
    won = [f"{what} {holder.id}" for what, answer in zip(RACES, answers, strict=True) if answer is None]
    for number in range(_TRIES):
        token = Holder(f"{holder.id}.{number}", 1, HOUR)
        started = store.change([_timed(take_guards([BUCKET], token))])[0]
        won += [f"token {started}"] if started else []
    return won


def _timed(change: Change) -> Change:
    """The same, but the answer is the time at which it was let through."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        decision = change.decide(states, now)
        return decision._replace(answer=now if decision.answer is None else None)

    return Change(change.keys, decide)


def run(url: str, number: int) -> None:
    backend = open_backend(url, SystemClock())
    lines = race(cast(Store, backend.guards), Holder(str(number), 1, HOUR))
    os.write(1, "".join(f"{line}\n" for line in lines).encode())
    backend.close()


def main(url: str, count: int) -> int:
    """How many of them failed."""
    gate, shut = os.pipe()
    racers = [pid for number in range(count) if (pid := _fork(url, number, gate, shut))]
    os.close(shut)
    return sum(os.waitpid(racer, 0)[1] != 0 for racer in racers)


def _fork(url: str, number: int, gate: int, shut: int) -> int:
    """The pid of the new process; it starts when the gate opens."""
    pid = os.fork()
    if pid:
        return pid
    os.close(shut)
    os.read(gate, 1)
    try:
        run(url, number)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
