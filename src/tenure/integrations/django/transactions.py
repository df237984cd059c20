"""DjangoTransactions: lets enqueues join the `atomic()` block of the calling thread.

A job for the database of the alias is written on Django's connection. A job for another backend is written into the
outbox of that database, or sent after the commit, as TENURE["DEFER"] says.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from tenure.app.tenure import Tenure
from tenure.definition.job import Job, new_id
from tenure.integrations.django.configuration import IN_PROCESS, DjangoOptions
from tenure.integrations.django.database_url import is_same_database, is_test

T = TypeVar("T")


class DjangoTransactions:
    """The transaction of the calling thread on the alias that `options` names."""

    def __init__(self, app: Tenure, options: Callable[[], DjangoOptions]) -> None:
        self._app = app
        self._options = options

    def is_open(self, url: str) -> bool:
        options = self._options()
        connection = connections[options.database]
        if not (connection.in_atomic_block or _is_manual(connection)):
            return False
        if url.startswith(IN_PROCESS):
            return False
        return options.defer != "never" or is_same_database(url, options.database)

    def enqueue(self, job: Job, backend: str | None, url: str) -> str:
        options = self._options()
        connection = connections[options.database]
        if is_same_database(url, options.database):
            with _errors_of_django(connection):
                handle = self._app.enqueue(job, backend, connection=connection)
            self._wake_after_commit(connection, backend, {job.queue})
            return str(handle)
        if options.defer == "outbox":
            with _errors_of_django(connection):
                return str(self._app.outbox(connection).enqueue(job, backend))
        return self._after_commit(job, backend, options.database)

    def enqueue_many(self, jobs: Iterable[Job], backend: str | None, url: str) -> list[str]:
        options = self._options()
        connection = connections[options.database]
        if is_same_database(url, options.database):
            given = list(jobs)
            with _errors_of_django(connection):
                handles = self._app.enqueue_many(given, backend, connection=connection)
            self._wake_after_commit(connection, backend, {job.queue for job in given})
            return [str(each) for each in handles]
        if options.defer == "outbox":
            with _errors_of_django(connection):
                return [str(each) for each in self._app.outbox(connection).enqueue_many(jobs, backend)]
        return [self._after_commit(job, backend, options.database) for job in jobs]

    async def in_thread(self, url: str, enqueue: Callable[[], T]) -> tuple[T] | None:
        def joined() -> tuple[T] | None:
            return (enqueue(),) if self.is_open(url) else None

        found: tuple[T] | None = await sync_to_async(joined, thread_sensitive=True)()
        return found

    def _wake_after_commit(self, connection: Any, backend: str | None, queues: set[str]) -> None:
        """Not in the transaction, where the notification would hold a lock that all commits of the server share.

        Not in a test either, where it would be counted among the callbacks of the test.
        """
        if connection.vendor != "postgresql" or not connection.in_atomic_block or is_test():
            return
        names = sorted(map(self._app.queues.resolve, queues))

        def wake() -> None:
            transactions = self._app.open_backend(backend).backend.transactions
            if transactions is not None:
                transactions.wake(names)

        transaction.on_commit(wake, using=connection.alias, robust=True)

    def _after_commit(self, job: Job, backend: str | None, alias: str) -> str:
        """Send the job once the transaction is committed; it is lost if the process ends between the two."""
        identified = job if job.id is not None else job.replace(id=new_id())
        send: Callable[[], Any] = partial(self._app.enqueue, identified, backend)
        transaction.on_commit(send, using=alias)
        return str(identified.id)


def _is_manual(connection: Any) -> bool:
    """Whether autocommit is off, also for a connection that its first statement opens."""
    is_automatic = connection.settings_dict["AUTOCOMMIT"] if connection.connection is None else connection.autocommit
    return not is_automatic


@contextmanager
def _errors_of_django(connection: Any) -> Iterator[None]:
    """Refuse a transaction that can only be rolled back, and raise the driver's errors as Django does for its models.

    Django also notes there that the connection may be broken.
    """
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors:
        yield
