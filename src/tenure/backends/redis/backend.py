"""RedisBackend: the verbs as Lua scripts, one call per queue.

A lease is a member of a sorted set and is lost when it is reaped; the call that removes it settles the job in the same
step. `abandon` leaves the record where it is. Order is strict: priority, then enqueue. Time is the server's.
After a lost reply the backend asks the server: for a claim by its owner token, for a settlement by its result, for a
put by its id.
"""

from collections.abc import Sequence

from tenure.backends.contract import Backend
from tenure.backends.messages import DEFAULT_SUSPECT_AFTER, Abandon, Ack, Lease, Message, Nack, ReapedLease
from tenure.backends.redis import codec
from tenure.backends.redis.archive import RedisArchive
from tenure.backends.redis.audit import RedisAuditLog
from tenure.backends.redis.claims import RedisClaims
from tenure.backends.redis.connections import Argument, RedisClient, Unconfirmed, with_retries
from tenure.backends.redis.control import RedisControl
from tenure.backends.redis.ends import RedisEnds
from tenure.backends.redis.guards import RedisGuards
from tenure.backends.redis.jobs import RedisDeadLetters, RedisJobs, RedisQueueCounts
from tenure.backends.redis.ledger import RedisLedger
from tenure.backends.redis.scripts import KeyNames, RedisQueues, Scripts
from tenure.backends.redis.server import RedisServer
from tenure.backends.redis.settlements import RedisParking, RedisSettlements
from tenure.backends.redis.workers import RedisStats, RedisWorkers
from tenure.errors import BackendError, PartialPut


class RedisBackend(Backend):
    """All parts share the client and the scripts.

    On a cluster there are no guards and no unique jobs, because their keys and those of the queues are on different
    servers.
    """

    waits_rarely = True

    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames, is_cluster: bool = False) -> None:
        self._client = client
        queues = RedisQueues(client, scripts, names)
        unconfirmed = Unconfirmed()
        guards = None if is_cluster else RedisGuards(client, scripts, names)
        self._put = RedisPut(client, scripts, queues)
        self._claims = RedisClaims(client, scripts, names, unconfirmed)
        self._settlements = RedisSettlements(scripts, names, unconfirmed, guards)
        self.jobs = RedisJobs(scripts, queues)
        self.queues = RedisQueueCounts(queues)
        self.dead_letters = RedisDeadLetters(scripts, queues)
        self.control = RedisControl(client, scripts, queues)
        self.ends = RedisEnds(client, scripts, names, queues)
        self.workers = RedisWorkers(scripts, names)
        self.stats = RedisStats(scripts, names)
        self.guards = guards
        self.parking = None if guards is None else RedisParking(self._settlements, guards)
        self.unique = guards
        self.ledger = RedisLedger(client, scripts, names)
        self.archive = RedisArchive(client, scripts, names)
        self.audit = RedisAuditLog(client, scripts, names)
        self.server = RedisServer(client)

    def put(self, messages: Sequence[Message]) -> list[str]:
        return self._put.put(messages)

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        return self._claims.lease(queues, limit=limit, seconds=seconds, wait=wait)

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settlements.ack(verdicts)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settlements.nack(verdicts)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settlements.abandon(verdicts)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        return self._settlements.renew(leases, seconds=seconds)

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        return self._claims.reap(queues, suspect_after=suspect_after)

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return self._claims.has_suspects(queues)

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        return self._claims.lease_suspect(queues, seconds=seconds)

    def close(self) -> None:
        self._client.close()


class RedisPut:
    """Repeats a put without an answer: an id is stored once, and its bytes show which put stored it."""

    def __init__(self, client: RedisClient, scripts: Scripts, queues: RedisQueues) -> None:
        self._client = client
        self._scripts = scripts
        self._queues = queues
        self._registered: set[str] = set()

    def put(self, messages: Sequence[Message]) -> list[str]:
        stored: set[str] = set()
        for queue, group in _by_queue(messages).items():
            try:
                stored |= self._put(queue, list(group.values()))
            except BackendError as error:
                if not stored:
                    raise
                raise PartialPut(f"{len(stored)} messages were stored, then queue {queue!r} failed: {error}",
                                 [message.id for message in messages if message.id in stored]) from error  # fmt: skip
        return [id for id in dict.fromkeys(message.id for message in messages) if id in stored]

    def _put(self, queue: str, messages: Sequence[Message]) -> set[str]:
        """The ids of the messages that were new."""
        ids = [message.id for message in messages]
        arguments: list[Argument] = [
            len(ids),
            *ids,
            *map(codec.record_tail, messages),
            *map(codec.priority_offset, messages),
        ]
        has_unique = any(message.unique for message in messages)
        has_tags = any(message.tags for message in messages)
        if has_unique or has_tags or any(message.due or message.delay for message in messages):
            arguments += map(codec.due_argument, messages)
        if has_unique or has_tags:
            arguments += [message.unique or "" for message in messages]
        if has_tags:
            arguments += map(codec.tags_argument, messages)
        if queue not in self._registered:
            self._register(queue)
        repeats: list[None] = []
        before, refused = with_retries(
            lambda: self._scripts.run("put", self._queues.key(queue), arguments), lambda: repeats.append(None)
        )
        if before == 0:
            self._register(queue)  # the first job of its queue, perhaps since everything was deleted
        known = [messages[index - 1] for index in refused]
        if known and repeats:
            known = self._stored_by_others(queue, known)
        return set(ids) - {message.id for message in known}

    def _stored_by_others(self, queue: str, messages: Sequence[Message]) -> list[Message]:
        """The messages whose stored bytes are not ours; an unanswered call of ours stored the others."""
        key = f"{self._queues.key(queue)}:jobs"
        records = with_retries(lambda: self._client.ask("HMGET", key, *(message.id for message in messages)))
        return [
            message
            for message, record in zip(messages, records, strict=True)
            if not (record or b"").endswith(b" " + codec.record_tail(message))
        ]

    def _register(self, queue: str) -> None:
        self._queues.register([queue])
        self._registered.add(queue)


def _by_queue(messages: Sequence[Message]) -> dict[str, dict[str, Message]]:
    """Queue → id → message; the first message of each id."""
    groups: dict[str, dict[str, Message]] = {}
    for message in messages:
        groups.setdefault(message.queue, {}).setdefault(message.id, message)
    return groups
