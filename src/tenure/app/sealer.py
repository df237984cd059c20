"""Sealer: turns a job, and the jobs that follow it, into a message."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from tenure.app.tracing import Tracing
from tenure.backends.contract import Backend, InProcess, Message
from tenure.clock import Clock
from tenure.definition.handler import Handler
from tenure.definition.identity import new_id
from tenure.definition.job import Job
from tenure.definition.queues import Queues
from tenure.definition.registry import Registry
from tenure.errors import InvalidJob
from tenure.wire.envelope import Callbacks, Envelope, Follower, Wire, due_at

_DEEPEST = 8  # callbacks of callbacks of …: a longer row of jobs is a chain


@dataclass(frozen=True, slots=True)
class Channel:
    """A backend and the wire that seals and opens its messages."""

    backend: Backend
    wire: Wire


@dataclass(frozen=True, slots=True)
class Sealer:
    """What every message of an app has in common."""

    registry: Registry
    queues: Queues
    clock: Clock
    tracing: Tracing | None = None

    def message(self, job: Job, channel: Channel) -> Message:
        identifier, now = job.id or new_id(), self.clock.now()
        envelope = self._envelope(job, channel, identifier, now, depth=0)
        return Message(
            id=identifier,
            queue=envelope.queue,
            body=channel.wire.seal_envelope(envelope),
            handler=job.handler,
            name=job.name,
            priority=job.priority,
            delay=job.delay,
            due=due_at(job, now) if job.at is not None else 0,
            unique=job.unique,
            is_new=job.id is None,
        )

    def _envelope(self, job: Job, channel: Channel, identifier: str, now: int, depth: int) -> Envelope:
        if (queue := self.queues.resolve(job.queue)) != job.queue:
            job = job.replace(queue=queue)
        handler = self.registry.resolve(job.handler, job.queue)
        _refuse_to_leave(handler, channel.backend)
        callbacks = self._callbacks(job, channel, now, depth + 1) if job.has_followers else None
        packed = handler.shape.pack(job.payload)
        envelope = channel.wire.envelope(job, packed, identifier, now, handler.version, callbacks)
        trace = self.tracing and self.tracing.current()
        return structs.replace(envelope, trace=trace) if trace else envelope

    def _callbacks(self, job: Job, channel: Channel, now: int, depth: int) -> Callbacks:
        if depth > _DEEPEST:
            raise InvalidJob(f"callbacks are nested deeper than {_DEEPEST} jobs; put a row of jobs into `chain`")

        def made(jobs: Sequence[Job]) -> tuple[Follower, ...]:
            return tuple(self._follower(each, channel, now, depth) for each in jobs)

        return Callbacks(made(job.then), made(job.on_failure), made(job.finally_), made(job.chain))

    def follower(self, job: Job, channel: Channel) -> Follower:
        """A job that is to follow others which do not carry it."""
        return self._follower(job, channel, self.clock.now(), depth=1)

    def _follower(self, job: Job, channel: Channel, now: int, depth: int) -> Follower:
        if job.id is not None:
            raise InvalidJob(
                f"job {job.id!r} follows another and has an id of its own; it gets one when its turn comes"
            )
        message = self._envelope(job.replace(delay=0.0), channel, "", now, depth)
        return Follower(message, job.delay)


def _refuse_to_leave(handler: Handler, backend: Backend) -> None:
    if handler.in_process and not isinstance(backend, InProcess):
        raise InvalidJob(
            f"a {handler.key!r} job cannot leave this process, and this backend takes it elsewhere; "
            "make the callable a function with @app.job, or enqueue it on memory:// or sync://"
        )
