"""RedisClaims: grants leases, waits for work, and returns expired leases to their place."""

import itertools
import logging
import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from tenure.backends.messages import DEFAULT_SUSPECT_AFTER, Lease, ReapedLease
from tenure.backends.redis import codec
from tenure.backends.redis.connections import Argument, RedisClient, Unconfirmed, with_retries
from tenure.backends.redis.scripts import KeyNames, Scripts
from tenure.clock import MICROSECOND
from tenure.definition.failure import from_expiry
from tenure.errors import BackendUnavailable

logger = logging.getLogger(__name__)

_REAP_BATCH = 500
# The script fills in the time and the number of the attempt.
_EXPIRY_RECORDS = [
    msgspec.json.encode(from_expiry(-1, -2, crashed=crashed)).decode().replace(":-1", ":%.0f").replace(":-2", ":%d")
    for crashed in (False, True)
]
_NO_DELAYED_JOB = 60.0  # the longest wait when no delayed job is known


class RedisClaims:
    """Every claim has its own owner token, which finds its leases after a lost answer."""

    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames, unconfirmed: Unconfirmed) -> None:
        self._client = client
        self._scripts = scripts
        self._names = names
        self._unconfirmed = unconfirmed
        self._owner = secrets.token_hex(8)
        self._claims = itertools.count(1)

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        give_up = time.monotonic() + wait
        microseconds = round(seconds * MICROSECOND)
        woken = broken = False
        while True:
            leases, until_due = self._claim(queues, limit, microseconds, woken)
            left = give_up - time.monotonic()
            if leases or left <= 0:
                return leases
            try:
                woken = self._client.wait(self._names.wakes(queues), min(left, until_due), is_exact=until_due < left)
            except BackendUnavailable:
                if broken:
                    raise
                broken = True  # perhaps only an idle connection was cut: try one more claim

    def has_suspects(self, queues: Sequence[str]) -> bool:
        keys = [f"{self._names.queue(queue)}:suspects" for queue in queues]
        return any(with_retries(partial(self._client.ask, "EXISTS", key)) for key in keys)

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        microseconds = round(seconds * MICROSECOND)
        if regained := self._regain(microseconds):
            return regained
        for queue in queues:
            owner, reply = self._run_claim("lease_suspect", queue, [microseconds])
            if len(reply) > 2:
                return self._leases(reply, queue, owner)
        return []

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        reaped: list[ReapedLease] = []
        for queue in queues:
            key, full = self._names.queue(queue), True
            while full:
                found = with_retries(
                    partial(self._scripts.run, "reap", key, [_REAP_BATCH, suspect_after, *_EXPIRY_RECORDS])
                )
                reaped += [
                    ReapedLease(id.decode("utf-8", "replace"), queue, bool(crashed))
                    for id, crashed in zip(found[::2], found[1::2], strict=True)
                ]
                full = len(found) == 2 * _REAP_BATCH
        return reaped

    def _claim(self, queues: Sequence[str], limit: int, microseconds: int, woken: bool) -> tuple[list[Lease], float]:
        """Up to `limit` leases, and the time until the next delayed job is due."""
        leases = self._regain(microseconds)
        until_due = _NO_DELAYED_JOB
        if leases:
            return leases, 0.0
        for queue in queues:
            wanted: list[Argument] = [microseconds, limit - len(leases), int(woken)]
            try:
                owner, reply = self._run_claim("claim", queue, wanted)
            except BackendUnavailable:
                if leases:  # return these leases; the next call asks about the unanswered claim
                    break
                if regained := self._regain(microseconds):
                    return regained, 0.0
                owner, reply = self._run_claim("claim", queue, wanted)
            if len(reply) == 2:
                if reply[1]:
                    until_due = min(until_due, (int(reply[1]) - int(reply[0])) / MICROSECOND)
                continue
            leases += self._leases(reply, queue, owner)
            if len(leases) >= limit:
                break
        return leases, max(0.0, until_due)

    def _run_claim(self, script: str, queue: str, wanted: Sequence[Argument]) -> tuple[str, Any]:
        owner = f"{self._owner}.{next(self._claims)}"
        try:
            return owner, self._scripts.run(script, self._names.queue(queue), [owner, *wanted])
        except BackendUnavailable:
            self._unconfirmed.add_claim(queue, owner)
            raise

    def _regain(self, microseconds: int) -> list[Lease]:
        """The leases that unanswered claims were granted."""
        claims = self._unconfirmed.take_claims()
        leases: list[Lease] = []
        for position, (queue, owner) in enumerate(claims):
            try:
                reply = self._scripts.run("regain", self._names.queue(queue), [owner, microseconds])
                leases += self._leases(reply, queue, owner)
            except BackendUnavailable:
                for claim in claims[position:]:
                    self._unconfirmed.add_claim(*claim)
                if not leases:
                    raise
                break
        return leases

    def _leases(self, reply: Any, queue: str, owner: str) -> list[Lease]:
        """A lease for each record of a reply, one by one: a record that cannot be read has no effect on the others."""
        _, popped, metas, records = reply
        if not metas:
            metas = itertools.repeat(None)
        decode, leases = codec.decode_lease, []
        for id, place, meta, record in zip(popped[::2], popped[1::2], metas, records, strict=False):
            try:
                leases.append(decode(id, place, meta, record, queue, owner))
            except UnicodeDecodeError:
                self._remove(id, queue, owner)
        return leases

    def _remove(self, id: bytes, queue: str, owner: str) -> None:
        """No job can have an id that is not UTF-8, nor be a dead letter under it: its lease is deleted."""
        key = f"{self._names.queue(queue)}:leases"
        members = self._client.ask("ZRANGE", key, 0, -1)
        ours = [member for member in members if member.startswith(b"%b:%b:" % (id, owner.encode()))]
        if ours:
            self._client.ask("ZREM", key, *ours)
        logger.error(
            "queue %r had a job with the id %r, which is not UTF-8; it is removed from the queue", queue, id[:80]
        )
