"""RedisEnds: which jobs have ended; the scripts that end jobs publish a message, and a process that waits subscribes.

`PUBLISH` without a subscriber is so cheap that every script that ends jobs does it (docs/adr/0032).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tenure.backends.ends import EndWait, Wakeup, poll_for_ends
from tenure.backends.redis.connections import RedisClient, with_retries
from tenure.backends.redis.scripts import Call, KeyNames, RedisQueues, Scripts

_HAS_ENDED = 2
_REMEMBERED_QUEUES = 50_000


class RedisEnds:
    """Remembers the queue of each job that it found: only its queue knows a job."""

    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames, queues: RedisQueues) -> None:
        self._client = client
        self._scripts = scripts
        self._names = names
        self._queues = queues
        self._queue_of: dict[str, str] = {}

    def ended(self, ids: Sequence[str]) -> set[str]:
        groups: defaultdict[str, list[str]] = defaultdict(list)
        unknown: list[str] = []
        for id in ids:
            queue = self._queue_of.get(id)
            (unknown if queue is None else groups[queue]).append(id)
        for queue in self._queues.all() if unknown else ():
            groups[queue] += unknown
        calls: list[Call] = [("ended", self._names.queue(queue), each) for queue, each in groups.items()]
        answers = with_retries(lambda: self._scripts.run_each(calls)) if calls else []
        live: set[str] = set()
        if len(self._queue_of) > _REMEMBERED_QUEUES:
            self._queue_of.clear()
        for (queue, each), codes in zip(groups.items(), answers, strict=True):
            found = [id for id, code in zip(each, codes, strict=True) if code and code != _HAS_ENDED]
            self._queue_of.update(dict.fromkeys(found, queue))
            live.update(found)
        ended = set(ids) - live
        for id in ended:
            self._queue_of.pop(id, None)
        return ended

    @contextmanager
    def watch(self, wakeup: Wakeup) -> Iterator[EndWait]:
        subscription = self._client.subscribe(self._names.ended)
        if subscription is None:
            yield partial(poll_for_ends, wakeup)
            return
        try:
            yield lambda seconds, _: subscription.wait(wakeup, seconds)
        finally:
            subscription.close()
