"""What beanstalkd reports: how many jobs are in each state, and how durable a put is."""

from collections.abc import Sequence

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import ConnectionPool
from tenure.backends.beanstalk.protocol import Tubes, statistic
from tenure.backends.records import Fact
from tenure.events import JOB_STATES

_SERVER_STATES = {"ready": b"ready", "delayed": b"delayed", "leased": b"reserved", "dead": b"buried"}
_SUSPECT_STATES = {"parked": b"ready", "delayed": b"delayed", "leased": b"reserved", "dead": b"buried"}


class BeanstalkQueueCounts:
    def __init__(self, pool: ConnectionPool, tubes: Tubes) -> None:
        self._pool = pool
        self._tubes = tubes

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:  # noqa: ARG002 - the server forgets ended jobs
        with self._pool.borrow() as pooled:
            (listed,) = pooled.connection.exchange([protocol.LIST_TUBES])
            tubes = self._tubes.ours(listed.data)
            replies = pooled.connection.exchange([protocol.stats_tube(tube) for tube in tubes])
        found: dict[str, dict[str, int]] = {}
        for tube, reply in zip(tubes, replies, strict=True):
            states = _SUSPECT_STATES if self._tubes.holds_suspects(tube) else _SERVER_STATES
            live = {state: statistic(reply.data, b"current-jobs-" + word) for state, word in states.items()}
            if any(live.values()):
                counts = found.setdefault(self._tubes.queue(tube), dict.fromkeys(JOB_STATES, 0))
                for state, count in live.items():
                    counts[state] += count
        return found

    def ended_since(self, state: str, queue: str, since: int, limit: int) -> int:  # noqa: ARG002 - see below
        """The server forgets jobs that ended well, and does not know when it buried the others."""
        return 0

    def oldest(self, queues: Sequence[str]) -> None:
        """The server does not know how long jobs have waited."""


class BeanstalkServer:
    def __init__(self, pool: ConnectionPool, ttr: int) -> None:
        self._pool = pool
        self._ttr = ttr

    def facts(self) -> list[Fact]:
        with self._pool.borrow() as pooled:
            (stats,) = pooled.connection.exchange([protocol.STATS])
        return [
            _durability(bool(statistic(stats.data, b"binlog-current-index"))),
            Fact("leases", f"a job comes back when its worker's connection ends, at the latest after {self._ttr} s"),
            Fact("largest job", f"{statistic(stats.data, b'max-job-size')} bytes, with its counters"),
            Fact("not kept", "waiting jobs cannot be found by id; the history and the workers are in the store"),
        ]


def _durability(has_binlog: bool) -> Fact:
    if has_binlog:
        text = "jobs are in the binlog and survive a restart; a power failure may lose the last moments (its option -f)"
        return Fact("durability", text)
    return Fact("durability", "there is no binlog: a restart of the server loses every job (its option -b)", True)
