"""Producer: puts jobs on their queues, and takes them off again before they run."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from tenure.app.channels import Channels
from tenure.app.each import Refusals, put_each, seal
from tenure.app.overlap import overlapped
from tenure.app.sealer import Channel, Sealer
from tenure.app.stores import Put, put_unique, require_exclusive
from tenure.backends.asking import Fate, Reschedulable, Steerable, Turn
from tenure.backends.contract import InProcess, Message, Transactional
from tenure.backends.opening import without_secrets
from tenure.backends.sync import SyncBackend
from tenure.clock import to_microseconds
from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.job import Job
from tenure.errors import BackendError, PartialPut, TenureError
from tenure.events import CancelRequested, Enqueued, Listeners

T = TypeVar("T")
CHUNK = 1000  # messages per put: larger transactions gained nothing and hold the write lock longer


class Producer:
    """What `Tenure.enqueue` and its like do; `backend` is a name from the settings, a URL, or None for the app's."""

    def __init__(self, channels: Channels, sealer: Sealer, listeners: Listeners) -> None:
        self._channels = channels
        self._sealer = sealer
        self._listeners = listeners

    def enqueue(self, job: Job, backend: str | None = None, connection: Any = None, *, wake: bool = False) -> str:
        if self._sealer.tracing is None:
            return self._enqueue(job, backend, connection, wake=wake)
        with self._sealer.tracing.sending(job) as span:
            id = self._enqueue(job, backend, connection, wake=wake)
            span.set_attribute("messaging.message.id", id)
            return id

    def _enqueue(self, job: Job, backend: str | None, connection: Any, *, wake: bool) -> str:
        channel = self._channels.get(backend)
        message = self._sealer.message(job, channel)
        put = channel.backend.put if connection is None else self._joined(backend, connection, wake)
        if job.unique is not None and (existing := put_unique(channel.backend, message, job.duplicate, put)):
            return existing
        if job.unique is None:
            put([message])
        if self._listeners:
            self._listeners.emit(Enqueued(message.queue, message.handler, (message.id,)))
        return message.id

    def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> list[str]:
        with self._sending() as span:
            ids = self._enqueue_many(jobs, backend)
            if span is not None:
                span.set_attribute("messaging.batch.message_count", len(ids))
            return ids

    def _enqueue_many(self, jobs: Iterable[Job], backend: str | None) -> list[str]:
        channel = self._channels.get(backend)
        ids: list[str] = []
        put, sealed = channel.backend.put, self._sealed(jobs, channel)
        # On a server, half of the time is spent waiting for it: PostgreSQL takes 1.4 times as many in this way.
        answers = (
            ((messages, put(messages)) for messages in sealed)
            if isinstance(channel.backend, InProcess)
            else overlapped(put, sealed, lambda messages: len(messages) < CHUNK)
        )
        try:
            for messages, found in answers:
                new = set(found)
                stored = [message for message in messages if message.unique is None or message.id in new]
                ids += [message.id for message in stored]
                self.tell(stored)
        except TenureError as error:
            ids += error.accepted if isinstance(error, PartialPut) else []
            if not ids:
                raise
            raise PartialPut(f"{len(ids)} jobs were enqueued, then one was refused: {error}", ids) from error
        return ids

    def enqueue_each(self, jobs: Iterable[Job], backend: str | None = None) -> list[str | Exception]:
        with self._sending():
            return self._enqueue_each(jobs, backend)

    def _enqueue_each(self, jobs: Iterable[Job], backend: str | None) -> list[str | Exception]:
        channel = self._channels.get(backend)
        sealed = [
            seal(self._sealer, job, channel) if job.unique is None else self._enqueued(job, backend) for job in jobs
        ]
        messages = [each for each in sealed if isinstance(each, Message)]
        size = 1 if isinstance(channel.backend, SyncBackend) else CHUNK  # there to put is to run, and some jobs fail
        refused: Refusals = {}
        for first in range(0, len(messages), size):
            refused |= put_each(channel.backend, messages[first : first + size])
        self.tell([message for message in messages if message.id not in refused])
        return [refused.get(each.id, each.id) if isinstance(each, Message) else each for each in sealed]

    def cancel(self, ids: Iterable[str], backend: str | None = None) -> dict[str, Fate]:
        steerable = self._channels.get(backend).backend
        if not isinstance(steerable, Steerable):
            raise BackendError(f"the backend {without_secrets(self._channels.url(backend))!r} cannot cancel jobs")
        fates: dict[str, Fate] = {}
        for chunk in _chunks(ids, CHUNK):
            fates.update(found := steerable.cancel(chunk))
            self._tell_cancelled(found)
        return fates

    def reschedule(
        self, ids: Iterable[str], delay: Duration = 0, at: datetime | None = None, backend: str | None = None
    ) -> dict[str, Turn]:
        found = self._channels.get(backend).backend
        if not isinstance(found, Reschedulable):
            raise BackendError(
                f"the backend {without_secrets(self._channels.url(backend))!r} cannot reschedule jobs: "
                "it finds none by its id; cancel what can be cancelled there, and enqueue it anew"
            )
        due = 0 if at is None else to_microseconds(to_moment(at, "the time to reschedule to"))
        seconds = to_seconds(delay, "the delay to reschedule by")
        turns: dict[str, Turn] = {}
        for chunk in _chunks(ids, CHUNK):
            turns.update(found.reschedule(chunk, due=due, delay=seconds))
        return turns

    def tell(self, messages: Sequence[Message]) -> None:
        """Let listeners know of what was put, a queue and handler at a time."""
        if not self._listeners:
            return
        kinds: dict[tuple[str, str], list[str]] = {}
        for message in messages:
            kinds.setdefault((message.queue, message.handler), []).append(message.id)
        for (queue, handler), ids in kinds.items():
            self._listeners.emit(Enqueued(queue, handler, tuple(ids)))

    def _sending(self) -> AbstractContextManager[Any]:
        """A span around many, where enqueues are traced."""
        return nullcontext() if self._sealer.tracing is None else self._sealer.tracing.sending(None)

    def _sealed(self, jobs: Iterable[Job], channel: Channel) -> Iterator[list[Message]]:
        for chunk in _chunks(jobs, CHUNK):
            messages = [self._sealer.message(job, channel) for job in chunk]
            require_exclusive(channel.backend, messages)
            yield messages

    def _enqueued(self, job: Job, backend: str | None) -> str | Exception:
        """The id of a job, or why there is none."""
        try:
            return self.enqueue(job, backend)
        except Exception as error:  # whatever it is, it is the affair of whoever made this job
            return error

    def _joined(self, backend: str | None, connection: Any, wake: bool) -> Put:
        found = self._channels.get(backend).backend
        if not isinstance(found, Transactional):
            raise BackendError(
                f"the backend {without_secrets(self._channels.url(backend))!r} has no transactions to join; use one on "
                "your SQL database, or enqueue after the commit"
            )
        return partial(found.put_in, connection, wake=wake)

    def _tell_cancelled(self, fates: dict[str, Fate]) -> None:
        ended = tuple(id for id, fate in fates.items() if fate == "cancelled")
        asked = tuple(id for id, fate in fates.items() if fate == "asked")
        if self._listeners and (ended or asked):
            self._listeners.emit(CancelRequested(ended, asked))


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk
