"""`python -m shop` fills the backend of the settings, which must be empty, with a day of the shop that ends now.

`python -m shop beat` then lets its workers look alive, until it is stopped.
"""

import sys
import time
from datetime import UTC, datetime, timedelta

from msgspec import structs

from tenure.testing import FakeClock

from .day import HOURS, fill
from .jobs import shop

BEAT_SECONDS = 3
ALIVE_SECONDS = 30


def fill_with_a_day() -> None:
    clock = FakeClock(datetime.now(UTC) - timedelta(hours=HOURS))
    with shop(clock=clock) as app:
        fill(app, clock)
        counts = app.backend.queues.counts() if app.backend.queues is not None else {}
    print(f"A day of the shop: {sum(sum(states.values()) for states in counts.values())} jobs in {len(counts)} queues.")


def beat() -> None:
    with shop() as app:
        registry = app.parts().workers
        while registry is not None:
            for worker in registry.alive():
                registry.announce(structs.replace(worker, seen_at=app.clock.now()), ALIVE_SECONDS)
            time.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    beat() if sys.argv[1:] == ["beat"] else fill_with_a_day()
