"""Server: what beanstalkd tells about itself: how many jobs are where, and what a put is worth."""

from tenure.backends.asking import STATES
from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.counting import figure
from tenure.backends.beanstalk.pool import Pool
from tenure.backends.beanstalk.tubes import Tubes
from tenure.backends.upkeep import Fact

_COUNTED = {"ready": b"ready", "delayed": b"delayed", "leased": b"reserved", "dead": b"buried"}


class Server:
    def __init__(self, pool: Pool, tubes: Tubes, ttr: int) -> None:
        self._pool = pool
        self._tubes = tubes
        self._ttr = ttr

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:  # noqa: ARG002 - it keeps none of them
        with self._pool.site() as site:
            (listed,) = site.connection.exchange([protocol.LIST_TUBES])
            tubes = self._tubes.ours(listed.data)
            replies = site.connection.exchange([protocol.stats_tube(tube) for tube in tubes])
        found: dict[str, dict[str, int]] = {}
        for tube, reply in zip(tubes, replies, strict=True):
            live = {state: figure(reply.data, b"current-jobs-" + word) for state, word in _COUNTED.items()}
            if any(live.values()):
                found[self._tubes.queue(tube)] = {**dict.fromkeys(STATES, 0), **live}
        return found

    def facts(self) -> list[Fact]:
        with self._pool.site() as site:
            (stats,) = site.connection.exchange([protocol.STATS])
        return [
            _durability(bool(figure(stats.data, b"binlog-current-index"))),
            Fact("leases", f"come back when a worker's connection ends, at the latest after {self._ttr} s"),
            Fact("largest job", f"{figure(stats.data, b'max-job-size')} bytes, with what is kept beside the message"),
            Fact("not kept", "waiting jobs by their id; what has run and the roster of workers are in the store"),
        ]


def _durability(has_binlog: bool) -> Fact:
    if has_binlog:
        text = "jobs are in the binlog and survive a restart; a power cut may cost the last moments (its option -f)"
        return Fact("durability", text)
    return Fact("durability", "there is no binlog: a restart of the server loses every job (its option -b)", True)
