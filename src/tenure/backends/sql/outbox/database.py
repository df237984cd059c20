"""OutboxDatabase: what the relay and the command line do with the table of an outbox, on connections of their own.

A row is claimed for a time by the clock of the database, and no lock is held after that. Every change of a claimed row
checks the claim, except its deletion: a row is deleted after its job is stored in its backend, also if
another relay has stored it. So numbers of rows must never be used again.
"""

import secrets
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import groupby
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from tenure.backends.messages import Message
from tenure.backends.sql import migrations
from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.backends.sql.migrations import SqlSchema
from tenure.backends.sql.outbox.writer import TABLE, is_table_missing
from tenure.backends.url import shown_url, without_secrets
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError, SchemaError, UnknownBackend

T = TypeVar("T")
MAX_BATCH = 1000
_BATCH_BYTES = 16_000_000  # of bodies that one claim brings into memory
_ERROR_LENGTH = 2000
_MODULES = {
    "sqlite": "tenure.backends.sql.sqlite.url",
    "postgresql": "tenure.backends.sql.postgresql.url",
    "postgres": "tenure.backends.sql.postgresql.url",
    "mysql": "tenure.backends.sql.mysql.url",
    "mariadb": "tenure.backends.sql.mysql.url",
}
# The first row of the next backend; the index has the rows of a backend in the order in which they can be claimed.
_NEXT_BACKEND = f"""
SELECT backend, ready_at FROM {TABLE} WHERE backend > :last ORDER BY backend, ready_at, number LIMIT 1
"""
_FIRST_BACKEND = _NEXT_BACKEND.replace("> :last", ">= :last")
_CLAIMABLE = f"""
SELECT number, length(body) FROM {TABLE} WHERE backend = :backend AND ready_at <= :now
ORDER BY ready_at, number LIMIT :limit FOR UPDATE SKIP LOCKED
"""
_CLAIM = f"UPDATE {TABLE} SET owner = :owner, ready_at = :until WHERE number IN :numbers"
_CLAIMED = f"""
SELECT number, tries, id, queue, body, handler, name, priority, due, only_one, tags FROM {TABLE}
WHERE number IN :numbers
"""
_DELETE = f"DELETE FROM {TABLE} WHERE number IN :numbers"
_HELD = "WHERE number IN :numbers AND owner = :owner"
# A job that was never refused gets its old place again.
_RELEASE = f"UPDATE {TABLE} SET owner = NULL, ready_at = CASE WHEN tries = 0 THEN created ELSE :now END {_HELD}"
_REFUSE = f"UPDATE {TABLE} SET owner = NULL, ready_at = :again, tries = :tries, error = :error {_HELD}"
_DEPTHS = f"""
SELECT backend, count(*), sum(CASE WHEN tries > 0 THEN 1 ELSE 0 END), min(created),
    min(CASE WHEN tries = 0 THEN created END)
FROM {TABLE} GROUP BY backend ORDER BY backend
"""
_PAGE = f"""
SELECT id, backend, queue, handler, created, ready_at, owner, tries, error FROM {TABLE}
WHERE tries >= :tries ORDER BY number LIMIT :limit
"""
# Rows that no relay holds now.
_FREE = f"SELECT number, id FROM {TABLE} WHERE id IN :ids AND (owner IS NULL OR ready_at <= :now) FOR UPDATE"
_FREE_REFUSED = f"SELECT number, id FROM {TABLE} WHERE tries > 0 AND owner IS NULL FOR UPDATE"
_RETRY = f"UPDATE {TABLE} SET owner = NULL, ready_at = :now WHERE number IN :numbers"


class OutboxEntry(Struct, frozen=True):
    """A claimed row: its number, how often the job was refused before, and the message to put."""

    number: int
    tries: int
    message: Message


class OutboxClaim(Struct, frozen=True):
    """Rows that one relay may move until the claim ends."""

    owner: str
    entries: tuple[OutboxEntry, ...]


class OutboxDepth(Struct, frozen=True):
    """How many jobs wait for a backend, how many of them it has refused, and the age of the oldest in seconds.

    `untried_age` is that of the oldest job that no relay has tried; 0 if there is none.
    """

    backend: str
    jobs: int = 0
    refused: int = 0
    oldest_age: float = 0.0
    untried_age: float = 0.0


class OutboxJob(Struct, frozen=True):
    """A row for people; times are UTC microseconds, `again` is when a relay may try next."""

    id: str
    backend: str
    queue: str
    handler: str
    created: int
    again: int
    is_claimed: bool
    tries: int
    error: str | None


class OutboxDatabase:
    """The table in one database; `name` is its URL without secrets."""

    def __init__(self, dialect: Dialect, name: str) -> None:
        self._dialect = dialect
        self.name = name
        self.schema = SqlSchema(dialect, migrations.OUTBOX)

    def check(self) -> None:
        """Refuse a database without the table, or with a table of another version."""
        migrations.check(self._dialect, migrations.OUTBOX)
        stored, needed = self.schema.version()
        if stored < needed:
            has = f"version {stored} of the table" if stored else "no table"
            raise SchemaError(
                f"the database {self.name!r} has {has} {TABLE}, and this release needs version {needed}: run "
                "`tenure outbox migrate --database URL`, or the migrations of the application"
            )

    def due_backends(self) -> list[str]:
        """The backends for which there is a row that can be claimed now."""
        found: list[Row] = self._read(_FIRST_BACKEND, last="")
        if not found:
            return []
        now, due = self._dialect.now(), []
        while found:
            ((backend, ready_at),) = found
            if ready_at <= now:
                due.append(backend)
            found = self._read(_NEXT_BACKEND, last=backend)
        return due

    def claim(self, backend: str, limit: int, seconds: float) -> OutboxClaim:
        """Claim the first rows for this backend, for so long."""
        owner = secrets.token_hex(8)

        def work(rows: Rows) -> list[Row]:
            now = self._dialect.time_in(rows)
            numbers = _within_bytes(rows(_CLAIMABLE, {"backend": backend, "now": now, "limit": limit}))
            if not numbers:
                return []
            until = now + round(seconds * MICROSECOND)
            rows(_CLAIM, {"owner": owner, "until": until, "numbers": numbers})
            found = {row[0]: row for row in rows(_CLAIMED, {"numbers": numbers})}
            return [found[number] for number in numbers]

        return OutboxClaim(owner, tuple(map(_entry, self._transact(work))))

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete rows whose jobs are stored in their backend."""
        self._transact(lambda rows: rows(_DELETE, {"numbers": list(numbers)}))

    def release(self, claim: OutboxClaim, entries: Sequence[OutboxEntry]) -> None:
        """Give rows back: another claim may take them at once."""
        numbers = [entry.number for entry in entries]

        def work(rows: Rows) -> None:
            rows(_RELEASE, {"numbers": numbers, "owner": claim.owner, "now": self._dialect.time_in(rows)})

        self._transact(work)

    def refuse(
        self, claim: OutboxClaim, entries: Sequence[tuple[OutboxEntry, str]], pause: Callable[[int], float]
    ) -> None:
        """Record why the backend refused these jobs; they wait for `pause(tries)` seconds."""

        def kind(item: tuple[OutboxEntry, str]) -> tuple[int, str]:
            return item[0].tries, item[1]

        def work(rows: Rows) -> None:
            now = self._dialect.time_in(rows)
            for (tries, error), items in groupby(sorted(entries, key=kind), key=kind):
                again = now + round(pause(tries + 1) * MICROSECOND)
                numbers = [entry.number for entry, _ in items]
                values = {"again": again, "tries": tries + 1, "error": error[:_ERROR_LENGTH].replace("\x00", "\ufffd")}
                rows(_REFUSE, {**values, "numbers": numbers, "owner": claim.owner})

        self._transact(work)

    def depths(self) -> list[OutboxDepth]:
        """The jobs that wait, by backend; it reads every row."""
        found = self._read(_DEPTHS)
        now = self._dialect.now() if found else 0
        return [
            OutboxDepth(backend, int(jobs), int(refused), _seconds(now, oldest), _seconds(now, untried or now))
            for backend, jobs, refused, oldest, untried in found
        ]

    def page(self, limit: int, *, only_refused: bool = False) -> list[OutboxJob]:
        """The oldest rows."""
        found = self._read(_PAGE, tries=1 if only_refused else 0, limit=limit)
        now = self._dialect.now() if found else 0
        return [
            OutboxJob(id, backend, queue, handler, created, again, owner is not None and again > now, tries, error)
            for id, backend, queue, handler, created, again, owner, tries, error in found
        ]

    def retry(self, ids: Sequence[str] | None) -> list[str]:
        """Let the relay try these jobs now, or all refused ones; return the ids that are here and not being moved."""
        return self._change(ids, _RETRY)

    def remove(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that never reached their backend; return the ids that are here and not being moved."""
        return self._change(ids, _DELETE)

    def close(self) -> None:
        self._dialect.close()

    def _change(self, ids: Sequence[str] | None, statement: str) -> list[str]:
        def work(rows: Rows) -> list[str]:
            now = self._dialect.time_in(rows)
            found = rows(_FREE_REFUSED, {}) if ids is None else rows(_FREE, {"ids": list(ids), "now": now})
            if found:
                rows(statement, {"numbers": [number for number, _ in found], "now": now})
            return [id for _, id in found]

        return self._transact(work)

    def _read(self, statement: str, **values: object) -> list[Row]:
        return self._explained(lambda: self._dialect.read(statement, values))

    def _transact(self, work: Callable[[Rows], T]) -> T:
        return self._explained(lambda: self._dialect.transact(work))

    def _explained(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except BackendError as error:
            if error.__cause__ is not None and is_table_missing(error.__cause__):
                self.check()
            raise


def open_outbox(url: str, clock: Clock) -> OutboxDatabase:
    """The outbox in the database of an application; nothing is created or changed there."""
    parts = urlsplit(url)
    if parts.scheme not in _MODULES:
        raise UnknownBackend(
            f"{without_secrets(url)!r} has no outbox: the setting outboxes takes URLs of SQL databases, "
            f"{', '.join(f'{scheme}://' for scheme in _MODULES)}"
        )
    dialect: Dialect = import_module(_MODULES[parts.scheme]).open_outbox(parts, clock)
    return OutboxDatabase(dialect, shown_url(url))


def _seconds(now: int, since: int) -> float:
    return max(0, now - since) / MICROSECOND


def _within_bytes(found: Sequence[Row]) -> list[int]:
    """The first numbers whose bodies fit into memory together; at least one."""
    numbers: list[int] = []
    size = 0
    for number, length in found:
        size += length
        if numbers and size > _BATCH_BYTES:
            break
        numbers.append(number)
    return numbers


def _entry(row: Row) -> OutboxEntry:
    number, tries, id, queue, body, handler, name, priority, due, unique, tags = row
    message = Message(
        id=id, queue=queue, body=bytes(body), handler=handler, name=name, priority=priority, due=due, unique=unique,
        tags=tuple(tags.split(",")) if tags else (),
    )  # fmt: skip
    return OutboxEntry(number, tries, message)
