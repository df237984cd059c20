"""Producer: enqueues, cancels and reschedules jobs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tenure.app.current_transaction import CurrentTransaction
from tenure.app.open_backends import OpenBackend, OpenBackends, Sealer
from tenure.app.stores import Holders, Put, existing_job, put_unique, require_unique
from tenure.app.tracing import Sendings, Traced, carrying, sending, traced
from tenure.backends.contract import Backend
from tenure.backends.messages import Message, enqueued_events
from tenure.backends.parts import Transactions
from tenure.backends.records import CancelResult, RescheduleResult
from tenure.backends.url import without_secrets
from tenure.clock import to_microseconds
from tenure.definition.duration import Duration, to_seconds
from tenure.definition.given_job import check_job, check_jobs
from tenure.definition.job import Job
from tenure.definition.moment import When, to_instant
from tenure.errors import BackendError, BackendUnavailable, PartialPut, TenureError
from tenure.events import CancelRequested, Enqueued, Listeners

if TYPE_CHECKING:
    import concurrent.futures

T = TypeVar("T")
R = TypeVar("R")
CHUNK = 1000  # messages per put: larger transactions gained nothing and hold the write lock longer
# To send a chunk, a thread needs the interpreter lock, which a caller that seals keeps for 5 ms: all of the next chunk.
_SENDING_SECONDS = 0.002


class Producer:
    """Behind `Tenure.enqueue` and its variants; `backend` is a name from the settings, a URL, or None."""

    def __init__(self, backends: OpenBackends, sealer: Sealer, listeners: Listeners) -> None:
        self._backends = backends
        self._sealer = sealer
        self._listeners = listeners
        self.transaction: CurrentTransaction | None = None

    def enqueue(self, job: Job, backend: str | None = None, connection: Any = None, *, wake: bool = False) -> str:
        if connection is None and (transaction := self._open_transaction(backend)):
            return transaction.enqueue(job, backend, self._backends.url(backend))
        if not self._sealer.tracers:
            return self._enqueue(job, backend, connection, wake=wake)
        with sending(self._sealer.tracers, self._backends.url(backend), job) as spans:
            return self._enqueue(job, backend, connection, wake=wake, spans=spans)

    def _enqueue(
        self, job: Job, backend: str | None, connection: Any, *, wake: bool, spans: Sendings | None = None
    ) -> str:
        opened = self._backends.get(backend)
        message = self._sealer.message(job, opened)
        put: Put = opened.backend.put
        holders: Holders | None = None
        if connection is not None:
            put, holders = self._in_transaction(backend, connection, wake)
        id = self._put(message, job.duplicate, opened.backend, put, holders)
        if spans is not None:
            spans.sent(id, message)
        return id

    def put(self, message: Message, backend: str | None = None) -> str:
        """Store a sealed message; return its id, or the id of the job that already has its `unique` text."""
        opened = self._backends.get(backend)
        return self._put(message, "return", opened.backend, opened.backend.put)

    def _put(
        self,
        message: Message,
        duplicate: Literal["return", "refuse"],
        backend: Backend,
        put: Put,
        own_holders: Holders | None = None,
    ) -> str:
        if message.unique is None:
            put([message])
        elif existing := put_unique(backend, message, duplicate, put, own_holders):
            return existing
        if self._listeners:
            self._listeners.emit(Enqueued(message.queue, message.handler, (message.id,)))
        return message.id

    async def enqueue_in_async_transaction(
        self, job: Job, backend: str | None, connection: Any, *, wake: bool = False
    ) -> str:
        """As `enqueue`, on an async connection of the caller."""
        with sending(self._sealer.tracers, self._backends.url(backend), job) as spans:
            opened = self._backends.get(backend)
            if opened.backend.transactions is None and self._backends.place.redirects:
                # a test in memory: there is no transaction to join
                return self._enqueue(job, backend, None, wake=wake, spans=spans)
            message, transactions = self._sealer.message(job, opened), self._transactions(backend)
            require_unique(opened.backend, [message])
            stored = await transactions.aput(connection, [message], wake=wake)
            if not stored and message.unique is not None:
                existing = (await transactions.aholders(connection, [message.unique])).get(message.unique, message.id)
                if existing != message.id:
                    return existing_job(message, existing, job.duplicate)
            spans.sent(message.id, message)
            if self._listeners:
                self._listeners.emit(Enqueued(message.queue, message.handler, (message.id,)))
            return message.id

    def enqueue_many(
        self, jobs: Iterable[Job], backend: str | None = None, connection: Any = None, *, wake: bool = False
    ) -> list[str]:
        if connection is None and (transaction := self._open_transaction(backend)):
            return transaction.enqueue_many(jobs, backend, self._backends.url(backend))
        queues: set[str] = set()
        with sending(self._sealer.tracers, self._backends.url(backend)) as spans:
            own = None if connection is None else self._in_transaction(backend, connection, wake)[0]
            ids = self._enqueue_many(jobs, backend, own, queues)
            spans.sent_many(len(ids), queues)
            return ids

    def _enqueue_many(self, jobs: Iterable[Job], backend: str | None, own: Put | None, queues: set[str]) -> list[str]:
        """`own` puts in the transaction of the caller, whose connection belongs to this thread."""
        opened = self._backends.get(backend)
        ids: list[str] = []
        put, sealed = own or opened.backend.put, self._sealed(jobs, opened)
        # Half of the time is waiting for the server: sealing meanwhile lets servers take 1.3 times as many.
        answers = (
            ((messages, put(messages)) for messages in sealed)
            if opened.backend.in_process or own
            else send_overlapped(put, sealed, lambda messages: len(messages) < CHUNK)
        )
        try:
            for messages, found in answers:
                new = set(found)
                stored = [message for message in messages if message.unique is None or message.id in new]
                ids += [message.id for message in stored]
                queues.update(message.queue for message in stored)
                self._emit_enqueued(stored)
        except TenureError as error:
            ids += error.accepted if isinstance(error, PartialPut) else []
            if not ids:
                raise
            raise PartialPut(f"{len(ids)} jobs were enqueued, then one was refused: {error}", ids) from error
        return ids

    def enqueue_each(self, jobs: Iterable[Job], backend: str | None = None) -> list[str | Exception]:
        if self._open_transaction(backend):
            return [self._enqueue_one(job, backend) for job in jobs]
        with sending(self._sealer.tracers, self._backends.url(backend)) as spans:
            found = self._enqueue_each(jobs, backend)
            spans.sent_many(sum(isinstance(each, str) for each in found), ())
            return found

    def trace_one(self, job: Job, backend: str | None = None) -> AbstractContextManager[Traced] | None:
        """The spans of a caller whose job is sent with those of others by `enqueue_traced`; None without tracers."""
        tracers = self._sealer.tracers
        return traced(tracers, self._backends.url(backend), job) if tracers else None

    def enqueue_traced(self, calls: Sequence[tuple[Job, Traced]], backend: str | None = None) -> list[str | Exception]:
        """As `enqueue_each`, for the jobs of several callers, each with its own spans."""
        opened = self._backends.get(backend)
        found: list[str | Exception | Message] = []
        for job, (spans, trace) in calls:
            with carrying(trace):
                found.append(
                    self._enqueue_one(job, backend, spans)
                    if getattr(job, "unique", None) is not None
                    else seal(self._sealer, job, opened)
                )
        answers = self._put_sealed(found, opened)
        for (_, (spans, _)), message, answer in zip(calls, found, answers, strict=True):
            if isinstance(message, Message) and isinstance(answer, str):
                spans.sent(answer, message)
        return answers

    def _enqueue_each(self, jobs: Iterable[Job], backend: str | None) -> list[str | Exception]:
        opened = self._backends.get(backend)
        sealed = [
            self._enqueue_one(job, backend)
            if getattr(job, "unique", None) is not None
            else seal(self._sealer, job, opened)
            for job in jobs
        ]
        return self._put_sealed(sealed, opened)

    def _put_sealed(self, sealed: Sequence[str | Exception | Message], opened: OpenBackend) -> list[str | Exception]:
        """Put the messages among these; return their ids, or the errors that refused them, among the others."""
        messages = [each for each in sealed if isinstance(each, Message)]
        size = 1 if opened.backend.runs_on_put else CHUNK  # put runs the job there, and it may fail
        refused: Refusals = {}
        for first in range(0, len(messages), size):
            refused |= put_each(opened.backend, messages[first : first + size])
        self._emit_enqueued([message for message in messages if message.id not in refused])
        return [refused.get(each.id, each.id) if isinstance(each, Message) else each for each in sealed]

    async def in_open_transaction(self, backend: str | None, enqueue: Callable[[], T]) -> tuple[T] | None:
        """What `enqueue` returns in the thread of a framework's open transaction; None, uncalled, if none is open."""
        if self.transaction is None:
            return None
        return await self.transaction.in_thread(self._backends.url(backend), enqueue)

    def _open_transaction(self, backend: str | None) -> CurrentTransaction | None:
        """The transaction of a framework that the calling thread has open, if an enqueue to this backend joins it."""
        transaction = self.transaction
        return transaction if transaction is not None and transaction.is_open(self._backends.url(backend)) else None

    def cancel(self, ids: Iterable[str], backend: str | None = None) -> dict[str, CancelResult]:
        control = self._backends.get(backend).backend.control
        if control is None:
            raise BackendError(f"the backend {without_secrets(self._backends.url(backend))!r} cannot cancel jobs")
        results: dict[str, CancelResult] = {}
        for chunk in chunks(ids, CHUNK):
            results.update(found := control.cancel(chunk))
            self._emit_cancelled(found)
        return results

    def reschedule(
        self, ids: Iterable[str], delay: Duration = 0, at: When | None = None, backend: str | None = None
    ) -> dict[str, RescheduleResult]:
        control = self._backends.get(backend).backend.control
        if control is None:
            raise BackendError(
                f"the backend {without_secrets(self._backends.url(backend))!r} cannot reschedule jobs: "
                "it cannot find a job by its id; enqueue the job again with the new time"
            )
        due = 0 if at is None else to_microseconds(self._instant(at))
        seconds = to_seconds(delay, "the delay to reschedule by")
        results: dict[str, RescheduleResult] = {}
        for chunk in chunks(ids, CHUNK):
            results.update(control.reschedule(chunk, due=due, delay=seconds))
        return results

    def _instant(self, at: When) -> datetime:
        return to_instant(at, "the time to reschedule to", self._sealer.clock.now(), self._sealer.timezone)

    def _emit_enqueued(self, messages: Sequence[Message]) -> None:
        for event in enqueued_events(messages) if self._listeners else ():
            self._listeners.emit(event)

    def _sealed(self, jobs: Iterable[Job], opened: OpenBackend) -> Iterator[list[Message]]:
        for chunk in chunks(jobs, CHUNK):
            try:
                messages = self._sealer.messages(chunk, opened)
            except (AttributeError, TypeError):
                check_jobs(chunk, "app.enqueue_many")
                raise
            require_unique(opened.backend, messages)
            yield messages

    def _enqueue_one(self, job: Job, backend: str | None, spans: Sendings | None = None) -> str | Exception:
        """The id of the job, or the error that refused it."""
        try:
            if spans is not None:
                return self._enqueue(job, backend, None, wake=False, spans=spans)
            return self.enqueue(job, backend)
        except Exception as error:  # any error belongs to this job alone
            return error

    def _in_transaction(self, backend: str | None, connection: Any, wake: bool) -> tuple[Put, Holders | None]:
        opened = self._backends.get(backend).backend
        if opened.transactions is None and self._backends.place.redirects:
            return opened.put, None  # a test in memory: there is no transaction to join
        transactions = self._transactions(backend)
        return partial(transactions.put, connection, wake=wake), partial(transactions.holders, connection)

    def _transactions(self, backend: str | None) -> Transactions:
        transactions = self._backends.get(backend).backend.transactions
        if transactions is None:
            raise BackendError(
                f"the backend {without_secrets(self._backends.url(backend))!r} cannot join your transaction; "
                "use a backend in your SQL database, or enqueue after the commit"
            )
        return transactions

    def _emit_cancelled(self, results: dict[str, CancelResult]) -> None:
        ended = tuple(id for id, result in results.items() if result == "cancelled")
        asked = tuple(id for id, result in results.items() if result == "asked")
        if self._listeners and (ended or asked):
            self._listeners.emit(CancelRequested(ended, asked))


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


Refusals = dict[str, Exception]


def seal(sealer: Sealer, job: Job, opened: OpenBackend) -> Message | Exception:
    """The message of a job, or the error that refused it."""
    try:
        return sealer.message(check_job(job, "app.enqueue_each"), opened)
    except Exception as error:  # any error belongs to this job alone
        return error


def put_each(backend: Backend, messages: Sequence[Message]) -> Refusals:
    """Put messages together; return the refused ones with their errors, by id. The others are stored.

    Putting a stored message again changes nothing, so the halves of a refused batch are put again until each refused
    message is alone.
    """
    if not messages:
        return {}
    try:
        backend.put(messages)
    except PartialPut as error:
        accepted = set(error.accepted)
        return {message.id: error for message in messages if message.id not in accepted}
    except BackendUnavailable as error:
        return dict.fromkeys((message.id for message in messages), error)
    except TenureError as error:
        if len(messages) == 1:
            return {messages[0].id: error}
        middle = len(messages) // 2
        return put_each(backend, messages[:middle]) | put_each(backend, messages[middle:])
    return {}


def send_overlapped(send: Callable[[T], R], items: Iterable[T], is_last: Callable[[T], bool]) -> Iterator[tuple[T, R]]:
    """Each item with its answer, in order; a thread sends an item while the caller makes the next.

    The last item is sent by the caller. If making an item fails, the answers of the earlier ones come first.
    """
    import concurrent.futures  # a third of the time that single enqueues need to start

    with concurrent.futures.ThreadPoolExecutor(1, "tenure-put") as thread:
        pending: list[tuple[T, concurrent.futures.Future[R]]] = []
        try:
            for item in items:
                yield from _answers(pending)
                if is_last(item):
                    yield item, send(item)
                else:
                    pending.append((item, thread.submit(send, item)))
                    concurrent.futures.wait([pending[0][1]], timeout=_SENDING_SECONDS)
        except Exception:
            yield from _answers(pending)
            raise
        yield from _answers(pending)


def _answers(pending: list[tuple[T, "concurrent.futures.Future[R]"]]) -> Iterator[tuple[T, R]]:
    while pending:
        item, answer = pending.pop()
        yield item, answer.result()
