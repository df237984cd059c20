"""How many more jobs to lease: pure arithmetic, so that fast jobs never wait and slow ones are never hoarded."""

HORIZON = 0.05  # seconds of work to hold ahead: covers one lease round trip many times
BATCH = 500  # half of it drained a tenth slower on Redis and a fifth on SQLite
MOST_UNSETTLED = 3000  # bounds memory, and what a crash hands to others


def demand(*, idle: int, concurrency: int, waiting: int, unsettled: int, mean: float | None, busy: float) -> int:
    """What can start now, plus what recent durations say will start within the horizon.

    `mean` is the recent duration of a job, None before the first; `busy` is how long the runner has been at one.
    """
    ahead = 0 if mean is None or busy > HORIZON else int(concurrency * HORIZON / max(mean, 1e-5))
    target = min(idle + ahead, 4 * BATCH)
    if waiting * 2 > target:
        return 0
    return max(0, min(target - waiting, BATCH, MOST_UNSETTLED - unsettled))
