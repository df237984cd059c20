"""Outbox: enqueues jobs for any backend in the transaction of an application's own SQL database.

The job is sealed now and stored as a row of the table `tenure_outbox`; a server is not connected to, and may be down. A
relay moves the row to the backend after the commit, under the same id. Inside `app.override` there is no relay, so a
job goes to the backend of the override at once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from tenure.app.client import AppClient
from tenure.app.open_backends import MessageDestination, OpenBackend, OpenBackends, Sealer
from tenure.app.producer import CHUNK, Producer, chunks
from tenure.app.tracing import sending
from tenure.backends.messages import Message
from tenure.backends.sql import migrations
from tenure.backends.sql.outbox import writer
from tenure.backends.url import without_secrets
from tenure.definition.given_job import check_iterable, check_job, check_jobs
from tenure.definition.job import Job
from tenure.definition.job_handle import JobHandle, handles
from tenure.errors import BackendError, InvalidJob, UnknownBackend
from tenure.suggestions import nearest

create_table = writer.create_table


def sql(dialect: str) -> str:
    """The SQL that creates the table of the outbox; `dialect` is `postgresql`, `mysql` or `sqlite`."""
    return migrations.script(dialect, migrations.OUTBOX)


class Outbox:
    """The outbox in the database of a connection; `app.outbox(connection)` makes it.

    `backend` is the name of a backend from the settings, or None for the backend of the app. A row must not contain the
    password of a URL, so URLs are refused.
    """

    def __init__(
        self, connection: Any, backends: OpenBackends, sealer: Sealer, producer: Producer, client: AppClient
    ) -> None:
        self._connection = connection
        self._backends = backends
        self._sealer = sealer
        self._producer = producer
        self._client = client

    def enqueue(self, job: Job, backend: str | None = None) -> JobHandle[Any]:
        """Store one job in the caller's transaction; returns its handle, which is its id."""
        check_job(job, "app.outbox(connection).enqueue")
        if self._is_redirected:
            return self._handle(self._producer.enqueue(job, backend), backend)
        destination = self._destination(backend)
        with sending(self._sealer.tracers, self._backends.url(backend), job) as spans:
            message = self._sealed(job, destination)
            writer.write(self._connection, backend or "", [message], self._clock)
            spans.sent(message.id, message)
        return self._handle(message.id, backend)

    def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> list[JobHandle[Any]]:
        """Store many jobs in the caller's transaction; all of them are committed, or none."""
        checked = check_iterable(jobs, "app.outbox(connection).enqueue_many")
        if self._is_redirected:
            return self._handles(self._producer.enqueue_many(checked, backend), backend)
        destination, stored = self._destination(backend), []
        with sending(self._sealer.tracers, self._backends.url(backend)) as spans:
            for chunk in chunks(checked, CHUNK):
                messages = self._sealed_many(chunk, destination)
                writer.write(self._connection, backend or "", messages, self._clock)
                stored += messages
            spans.sent_many(len(stored), {message.queue for message in stored})
        return self._handles((message.id for message in stored), backend)

    async def aenqueue(self, job: Job, backend: str | None = None) -> JobHandle[Any]:
        """As `enqueue`, on an async connection."""
        check_job(job, "app.outbox(connection).aenqueue")
        if self._is_redirected:
            return self._handle(self._producer.enqueue(job, backend), backend)
        destination = await asyncio.to_thread(self._destination, backend)  # it may open a database file
        with sending(self._sealer.tracers, self._backends.url(backend), job) as spans:
            message = self._sealed(job, destination)
            await writer.write_async(self._connection, backend or "", [message], self._clock)
            spans.sent(message.id, message)
        return self._handle(message.id, backend)

    async def aenqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> list[JobHandle[Any]]:
        """As `enqueue_many`, on an async connection."""
        checked = check_iterable(jobs, "app.outbox(connection).aenqueue_many")
        if self._is_redirected:
            return self._handles(self._producer.enqueue_many(checked, backend), backend)
        destination, stored = await asyncio.to_thread(self._destination, backend), []
        with sending(self._sealer.tracers, self._backends.url(backend)) as spans:
            for chunk in chunks(checked, CHUNK):
                messages = self._sealed_many(chunk, destination)
                await writer.write_async(self._connection, backend or "", messages, self._clock)
                stored += messages
            spans.sent_many(len(stored), {message.queue for message in stored})
        return self._handles((message.id for message in stored), backend)

    @property
    def _is_redirected(self) -> bool:
        return self._backends.place.redirects

    @property
    def _clock(self) -> Any:
        return self._backends.place.clock

    def _destination(self, backend: str | None) -> MessageDestination:
        known = self._backends.place.settings.backends
        if backend is not None and backend not in known:
            guess = nearest(backend, known)
            advice = f"did you mean {guess!r}?" if guess else "give it a name there"
            raise UnknownBackend(
                f"no backend {without_secrets(backend)!r} is in the setting backends, whose names the outbox stores; "
                f"{advice}"
            )
        destination = self._backends.destination(backend)
        if isinstance(destination, OpenBackend) and destination.backend.runs_on_put:
            raise BackendError("sync:// runs jobs when they are put, so the outbox takes none for it; use memory://")
        return destination

    def _sealed(self, job: Job, destination: MessageDestination) -> Message:
        _check_duplicate(job)
        return self._sealer.message(job, destination)

    def _sealed_many(self, jobs: Sequence[Job], destination: MessageDestination) -> list[Message]:
        check_jobs(jobs, "app.outbox(connection).enqueue_many")
        for job in jobs:
            _check_duplicate(job)
        return self._sealer.messages(jobs, destination)

    def _handle(self, id: str, backend: str | None) -> JobHandle[Any]:
        return JobHandle(id, self._client.on(backend))

    def _handles(self, ids: Iterable[str], backend: str | None) -> list[JobHandle[Any]]:
        return handles(ids, self._client.on(backend))


def _check_duplicate(job: Job) -> None:
    if job.unique is not None and job.duplicate == "refuse":
        raise InvalidJob(
            f"a job with unique {job.unique!r} and duplicate='refuse' cannot go through the outbox: only the relay "
            "finds out whether the text is taken; use duplicate='return', with which a second job is dropped"
        )
