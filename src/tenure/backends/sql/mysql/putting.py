"""Storing a batch: all of it or none, and only what is new."""

from collections.abc import Iterator, Sequence
from typing import Any

from tenure.backends.contract import Message
from tenure.backends.sql.joining import first
from tenure.backends.sql.mysql import statements as sql
from tenure.backends.sql.mysql.session import Session
from tenure.clock import MICROSECOND
from tenure.errors import BackendError

_IN_TRANSACTION = 1  # a bit of what the server says with every answer
_UNPUT = tuple(sql.UNPUT.replace("{ended}", table) for table in ("tenure_history", "tenure_dead"))
_PACKET = 4_000_000  # well below the smallest max_allowed_packet that is usual


def store(session: Session, messages: Sequence[Message], batch: int, *, again: bool = False) -> set[str]:
    """Store these in a transaction of their own; the ids that are new. A `batch` is never used twice.

    What is stored `again` may be known, though it was new.
    """
    ids = session.quoted(message.id for message in messages)
    *most, last = _packets(session, messages, batch)
    if most:
        session.send(sql.BEGIN, most[0])
    for packet in most[1:]:
        session.send(packet)
    begin = [] if most else [sql.BEGIN]
    unput = [session.fill(text, ids=ids, batch=batch) for text in (_UNPUT if again else _unput(messages))]
    ready, *found = (session.fill(text, ids=ids, batch=batch) for text in (sql.PUT_READY, sql.PUT_IDS))
    later = [session.fill(sql.PUT_DELAYED, ids=ids, batch=batch)] if any(m.delay or m.due for m in messages) else []
    return {id for (id,) in session.send(*begin, last, *unput, ready, *later, *found, sql.COMMIT)[-2]}


def store_in(connection: Any, messages: Sequence[Message], batch: int, now: str) -> set[str]:
    """The same in a transaction of somebody else's, of which nothing is known: one statement at a time."""
    if connection.get_autocommit() and not getattr(connection, "server_status", 0) & _IN_TRANSACTION:
        raise BackendError("this connection commits every statement by itself; begin a transaction on it first")
    marks, ids = ", ".join(["%s"] * len(messages)), [message.id for message in messages]
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT tenure")
        try:
            for message in messages:
                cursor.execute(sql.PUT_JOBS.replace("{rows}", sql.PUT_ROW_IN.format(now=now)), _columns(message, batch))
            for statement in (*_unput(messages), sql.PUT_READY, sql.PUT_DELAYED, sql.PUT_IDS):
                cursor.execute(statement.replace("{ids}", marks).replace("{batch}", str(batch)), ids)
            stored = {first(row) for row in cursor.fetchall()}
        except BaseException:
            cursor.execute("ROLLBACK TO SAVEPOINT tenure")  # a caller who goes on must not commit a part
            raise
        cursor.execute("RELEASE SAVEPOINT tenure")
    return stored


def _unput(messages: Sequence[Message]) -> Sequence[str]:
    return () if all(message.is_new for message in messages) else _UNPUT


def _columns(message: Message, batch: int) -> tuple[Any, ...]:
    facts = (message.id, message.queue, -message.priority, message.handler, message.name)
    due = (message.due, message.due, round(message.delay * MICROSECOND))
    return (*facts, *due, message.body, message.unique, batch)


def _packets(session: Session, messages: Sequence[Message], batch: int) -> Iterator[str]:
    size, first = 0, 0
    for end, message in enumerate(messages, 1):
        size += 2 * len(message.body) + 500  # bytes are written as two digits each
        if size > _PACKET or end == len(messages):
            yield _inserted(session, messages[first:end], batch)
            size, first = 0, end


def _inserted(session: Session, messages: Sequence[Message], batch: int) -> str:
    shapes = [session.fill(sql.PUT_ROW.replace("{due}", _due(message)), batch=batch) for message in messages]
    values = [
        value
        for m in messages
        for value in (m.id, m.queue, -m.priority, m.handler, m.name, m.body, m.unique)
    ]  # fmt: skip
    return sql.PUT_JOBS.replace("{rows}", session.escaped(shapes, values))


def _due(message: Message) -> str:
    if message.due:
        return str(message.due)
    return f"{{now}} + {round(message.delay * MICROSECOND)}" if message.delay else "{now}"
