"""Storing a batch: all of it or none, and only what is new."""

from collections.abc import Iterator, Sequence

from tenure.backends.contract import Message
from tenure.backends.sql.mysql import statements as sql
from tenure.backends.sql.mysql.session import Session
from tenure.clock import MICROSECOND

_PACKET = 4_000_000  # well below the smallest max_allowed_packet that is usual


def store(session: Session, messages: Sequence[Message], batch: int) -> set[str]:
    """Store these in the transaction that is open; the ids that are new. A `batch` is never used twice."""
    ids = session.quoted(message.id for message in messages)
    *most, last = _packets(session, messages, batch)
    for packet in most:
        session.send(packet)
    unput = [session.fill(sql.UNPUT, ended=ended, ids=ids, batch=batch) for ended in ("tenure_history", "tenure_dead")]
    ready, *found = (session.fill(text, ids=ids, batch=batch) for text in (sql.PUT_READY, sql.PUT_IDS))
    later = [session.fill(sql.PUT_DELAYED, ids=ids, batch=batch)] if any(m.delay or m.due for m in messages) else []
    return {id for (id,) in session.send(last, *unput, ready, *later, *found)[-1]}


def _packets(session: Session, messages: Sequence[Message], batch: int) -> Iterator[str]:
    rows: list[str] = []
    size = 0
    for message in messages:
        rows.append(_row(session, message, batch))
        size += len(rows[-1])
        if size > _PACKET:
            yield sql.PUT_JOBS.replace("{rows}", ",".join(rows))
            rows, size = [], 0
    if rows:
        yield sql.PUT_JOBS.replace("{rows}", ",".join(rows))


def _row(session: Session, message: Message, batch: int) -> str:
    due = str(message.due) if message.due else "{now}"
    if message.delay and not message.due:
        due = f"{{now}} + {round(message.delay * MICROSECOND)}"
    shape = sql.PUT_ROW.replace("{due}", due)
    facts = (message.id, message.queue, -message.priority, message.handler, message.name)
    return session.fill(shape, *facts, message.body, message.unique, batch=batch)
