"""Callbacks: the jobs that are enqueued because a job has ended: those it carries, and the app's `on_dead` job."""

import logging
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from tenure.backends.messages import Abandon, Ack, Message, Nack, Park, Verdict
from tenure.clock import Clock, to_microseconds
from tenure.redaction import one_line
from tenure.wire.envelope import Envelope, Follower, Wire, follower_id, followers

logger = logging.getLogger(__name__)
_MAX_ERROR_LENGTH = 300
# Two apps that reject each other's messages would otherwise tell of the deaths of each other's on_dead jobs for ever.
_MAX_CLAIMED_NOTICES = 10
_CLAIMED_NOTICES_SECONDS = 60.0


class CallbackMessages:
    """Adds to a verdict the messages to enqueue with it; `on_dead` is enqueued for every death but its own."""

    def __init__(self, wire: Wire, clock: Clock, on_dead: Follower | None = None) -> None:
        self._wire = wire
        self._clock = clock
        self._on_dead = on_dead
        self._claimed_notices: deque[float] = deque(maxlen=_MAX_CLAIMED_NOTICES)

    def attach(self, verdict: Verdict, envelope: Envelope | None) -> Verdict:
        """The verdict with its callbacks; `envelope` is None when the message could not be opened."""
        if isinstance(verdict, Ack):
            if envelope is None or envelope.callbacks is UNSET:
                return verdict
            return structs.replace(verdict, follow=tuple(self._carried(envelope, verdict)))
        if isinstance(verdict, (Nack, Park)):
            return verdict
        carried = () if envelope is None else tuple(self._carried(envelope, verdict))
        return structs.replace(verdict, follow=(*carried, *self.death_notice(verdict, envelope)))

    def _carried(self, envelope: Envelope, verdict: Ack | Abandon) -> Iterator[Message]:
        ending = verdict.state if isinstance(verdict, Ack) else "dead"
        for id, follower in followers(envelope, ending):
            yield self._message(id, follower, {"id": envelope.identifier, "state": ending})

    def death_notice(self, death: Abandon, envelope: Envelope | None) -> Iterator[Message]:
        """The `on_dead` job; if it cannot be sealed it is skipped, because the dead job must be settled anyway."""
        if self._on_dead is None:
            return
        job = _claimed_job(death.lease.body) if envelope is None else envelope.job
        if job == self._on_dead.message.job and (envelope is not None or not self._may_tell_of_claim()):
            return
        id = death.lease.id
        try:
            yield self._message(follower_id(id, "on_dead"), self._on_dead, _death_facts(death, job))
        except Exception as error:
            logger.critical(
                "no on_dead job is enqueued for the dead job %s: %s", one_line(id), error, extra={"job": id}
            )

    def _may_tell_of_claim(self) -> bool:
        """Whether to tell of one more message that only claims to be an `on_dead` job: any forger can claim it."""
        now, told = self._clock.monotonic(), self._claimed_notices
        if len(told) == _MAX_CLAIMED_NOTICES and now - told[0] < _CLAIMED_NOTICES_SECONDS:
            return False
        told.append(now)
        return True

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
            tags=() if given.tags is UNSET else given.tags,
        )


def _death_facts(death: Abandon, job: str | None) -> dict[str, Any]:
    lease, failure = death.lease, death.failure
    return {
        "id": lease.id,
        "state": "dead",
        "queue": lease.queue,
        "job": job,
        "reason": death.reason,
        "error": failure and f"{failure.type}: {failure.message}"[:_MAX_ERROR_LENGTH],
        "attempts": lease.attempts + (death.charge == "attempt"),
        "crashes": lease.crashes + (death.charge == "crash"),
    }


class _JobName(Struct):
    job: str


_decode = msgspec.json.Decoder(_JobName).decode


def _claimed_job(body: bytes) -> str | None:
    """The job that a message names, although its signature was not verified."""
    try:
        return _decode(body).job[:255]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
