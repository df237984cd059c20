"""Following: what is enqueued because a job has ended: the jobs it carries, and the one that hears of every death."""

import logging
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from tenure.backends.contract import Abandon, Ack, Message, Nack, Park, Verdict
from tenure.clock import Clock, to_microseconds
from tenure.errors import TenureError
from tenure.redaction import one_line
from tenure.wire.envelope import Envelope, Follower, Wire
from tenure.wire.followers import follower_id, followers

logger = logging.getLogger(__name__)
_LONGEST_ERROR = 300


class Following:
    """Adds to a verdict the messages that go with it; `on_dead` follows every death but that of its own jobs."""

    def __init__(self, wire: Wire, clock: Clock, on_dead: Follower | None = None) -> None:
        self._wire = wire
        self._clock = clock
        self._on_dead = on_dead

    def attach(self, verdict: Verdict, envelope: Envelope | None) -> Verdict:
        """The verdict with the messages of the jobs that follow; `envelope` is None when it could not be opened."""
        if isinstance(verdict, Ack):
            if envelope is None or envelope.callbacks is UNSET:
                return verdict
            return structs.replace(verdict, follow=tuple(self._carried(envelope, verdict)))
        if isinstance(verdict, (Nack, Park)):
            return verdict
        carried = () if envelope is None else tuple(self._carried(envelope, verdict))
        return structs.replace(verdict, follow=(*carried, *self._told(verdict, envelope)))

    def _carried(self, envelope: Envelope, verdict: Ack | Abandon) -> Iterator[Message]:
        ending = verdict.state if isinstance(verdict, Ack) else "dead"
        for id, follower in followers(envelope, ending):
            yield self._message(id, follower, {"id": envelope.identifier, "state": ending})

    def _told(self, death: Abandon, envelope: Envelope | None) -> Iterator[Message]:
        """One that cannot be sealed is given up: the job it would tell of must die all the same."""
        job = _claimed(death.lease.body) if envelope is None else envelope.job
        if self._on_dead is None or job == self._on_dead.message.job:
            return
        id = death.lease.id
        try:
            yield self._message(follower_id(id, "on_dead"), self._on_dead, _obituary(death, job))
        except TenureError as error:
            logger.critical("the death of job %s is told to nobody: %s", one_line(id), error, extra={"job": id})

    def _message(self, id: str, follower: Follower, parent: dict[str, Any]) -> Message:
        given = follower.message
        return Message(
            id=id,
            queue=given.queue,
            body=self._wire.seal_follower(follower, id, self._clock.now(), {"parent": parent}),
            handler=given.job,
            name=given.name,
            priority=given.priority,
            delay=follower.delay,
            due=to_microseconds(given.schedule) if given.schedule else 0,
        )


def _obituary(death: Abandon, job: str | None) -> dict[str, Any]:
    lease, failure = death.lease, death.failure
    return {
        "id": lease.id,
        "state": "dead",
        "queue": lease.queue,
        "job": job,
        "reason": death.reason,
        "error": failure and f"{failure.type}: {failure.message}"[:_LONGEST_ERROR],
        "attempts": lease.attempts + (death.charge == "attempt"),
        "crashes": lease.crashes + (death.charge == "crash"),
    }


class _Claim(Struct):
    job: str


_claim = msgspec.json.Decoder(_Claim).decode


def _claimed(body: bytes) -> str | None:
    """Which job a message says it is for, though nobody vouches for it."""
    try:
        return _claim(body).job[:255]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
