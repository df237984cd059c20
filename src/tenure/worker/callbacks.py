"""Callbacks: the jobs that are enqueued because a job has ended: those it carries, and the app's `on_dead` job."""

import logging
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from tenure.backends.messages import Abandon, Ack, Message, Nack, Park, Verdict
from tenure.clock import Clock, to_microseconds
from tenure.definition.parent import FAULT
from tenure.errors import InvalidPayload
from tenure.execution.outcome import MAX_OUTPUT, Outcome
from tenure.redaction import one_line
from tenure.wire.envelope import Envelope, Follower, Wire, follower_id, followers

logger = logging.getLogger(__name__)
_MAX_ERROR_LENGTH = 300
# Two apps that reject each other's messages would otherwise tell of the deaths of each other's on_dead jobs for ever.
_MAX_CLAIMED_NOTICES = 10
_CLAIMED_NOTICES_SECONDS = 60.0


class CallbackMessages:
    """Adds to a verdict the messages to enqueue with it; `on_dead` is enqueued for every death but its own."""

    def __init__(self, wire: Wire, clock: Clock, on_dead: Follower | None = None, max_output: int = MAX_OUTPUT) -> None:
        self._wire = wire
        self._clock = clock
        self._on_dead = on_dead
        self._max_output = max_output
        self._claimed_notices: deque[float] = deque(maxlen=_MAX_CLAIMED_NOTICES)

    def attach(self, verdict: Verdict, envelope: Envelope | None, outcome: Outcome | None = None) -> Verdict:
        """The verdict with its callbacks; `envelope` is None when the message could not be opened.

        The `outcome`, if the handler was called, holds the result for the jobs that follow.
        """
        if isinstance(verdict, Ack):
            if envelope is None or envelope.callbacks is UNSET:
                return verdict
            return structs.replace(verdict, follow=tuple(self._carried(envelope, verdict, outcome)))
        if isinstance(verdict, (Nack, Park)):
            return verdict
        carried = () if envelope is None else tuple(self._carried(envelope, verdict, outcome))
        return structs.replace(verdict, follow=(*carried, *self.death_notice(verdict, envelope)))

    def _carried(self, envelope: Envelope, verdict: Ack | Abandon, outcome: Outcome | None) -> Iterator[Message]:
        ending = verdict.state if isinstance(verdict, Ack) else "dead"
        for id, follower in followers(envelope, ending):
            arguments = self._parent_arguments(follower, verdict, outcome) if follower.result or follower.error else {}
            yield self._message(id, follower, {"id": envelope.identifier, "state": ending}, arguments)

    def _parent_arguments(self, follower: Follower, verdict: Ack | Abandon, outcome: Outcome | None) -> dict[str, Raw]:
        """What the follower takes from the job before it, as JSON; null for a result or an error that there is not."""
        arguments: dict[str, Raw] = {}
        if follower.result:
            fault = self._result_fault(outcome)
            name, value = (FAULT, _json(fault)) if fault else (follower.result, _result(outcome))
            arguments[name] = value
        if follower.error:
            arguments[follower.error] = _json(_error_text(verdict))
        return arguments

    def _result_fault(self, outcome: Outcome | None) -> str | None:
        """Why the result of a job that has succeeded cannot be passed on."""
        if outcome is None or not outcome.ok or (outcome.result is None and outcome.output is None):
            return None  # there is no result, or it is None
        length = outcome.output_length or 0 if outcome.result is None else len(outcome.result)
        if length > self._max_output:
            return (
                f"it has {length} characters, more than the {self._max_output} of the setting max_output; "
                "store it elsewhere and return its location"
            )
        return None if outcome.result is not None else "JSON cannot carry it; return plain values, or declare its type"

    def death_notice(self, death: Abandon, envelope: Envelope | None) -> Iterator[Message]:
        """The `on_dead` job; if it cannot be sealed it is skipped, because the dead job must be settled anyway."""
        if self._on_dead is None:
            return
        job = _claimed_job(death.lease.body) if envelope is None else envelope.job
        if job == self._on_dead.message.job and (envelope is not None or not self._may_tell_of_claim()):
            return
        id = death.lease.id
        try:
            facts = _death_facts(death, job)
            arguments = {self._on_dead.error: _json(_error_text(death))} if self._on_dead.error else {}
            yield self._message(follower_id(id, "on_dead"), self._on_dead, facts, arguments)
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

    def _message(self, id: str, follower: Follower, parent: dict[str, Any], arguments: dict[str, Raw]) -> Message:
        given = follower.message
        return Message(
            id=id,
            queue=given.queue,
            body=self._sealed(follower, id, {"parent": parent}, arguments),
            handler=given.job,
            name=given.name,
            priority=given.priority,
            delay=follower.delay,
            due=to_microseconds(given.schedule) if given.schedule else 0,
            tags=() if given.tags is UNSET else given.tags,
        )

    def _sealed(self, follower: Follower, id: str, meta: dict[str, Any], arguments: dict[str, Raw]) -> bytes:
        """The message; if the result makes it too large or too deep, the follower is told so, and will be dead."""
        now = self._clock.now()
        try:
            return self._wire.seal_follower(follower, id, now, meta, arguments)
        except InvalidPayload as error:
            if follower.result not in arguments:
                raise
            return self._wire.seal_follower(follower, id, now, meta, {FAULT: _json(str(error))})


def _json(value: str | None) -> Raw:
    return Raw(msgspec.json.encode(value))


def _result(outcome: Outcome | None) -> Raw:
    return Raw(b"null" if outcome is None or outcome.result is None else outcome.result.encode())


def _error_text(verdict: Ack | Abandon) -> str | None:
    """The error of a job that did not succeed, else its reason; None for a success."""
    failure = verdict.failure if isinstance(verdict, Abandon) else None
    if failure is not None:
        return f"{failure.type}: {failure.message}"
    return None if isinstance(verdict, Ack) and verdict.state == "done" else verdict.reason


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
