"""Yardstick: a fixed piece of work of the kinds that a job costs, to measure the hot path against on any machine.

It never calls Tenure. Its parts stand in about the proportions that the path has: plain Python with calls, small
objects and dicts; msgspec; SHA-256; and SQLite. What slows a machine, or speeds up an interpreter, meets both alike.
"""

import hashlib
import sqlite3
from collections.abc import Callable

import msgspec


class _Thing(msgspec.Struct, frozen=True):
    id: str
    queue: str
    payload: dict[str, int]


_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(_Thing)
_KEYED = hashlib.sha256(bytes(64))


def plain(steps: int) -> None:
    """What a job costs in the interpreter, without a database."""
    seen: dict[str, bytes] = {}
    for step in range(steps):
        body = _ENCODER.encode(_Thing(f"{step:032x}", "default", {"i": step}))
        seal = _KEYED.copy()
        seal.update(body)
        seen[_checked(body, seal.digest())] = body
    if len(seen) != steps:
        raise RuntimeError("the yardstick is broken")


def _checked(body: bytes, seal: bytes) -> str:
    again = _KEYED.copy()
    again.update(body)
    if again.digest() != seal:
        raise RuntimeError("the yardstick is broken")
    thing = _DECODER.decode(body)
    parts = [thing.id, thing.queue, *map(str, thing.payload.values())]
    return "/".join(sorted(part for part in parts if part))


def database() -> Callable[[int], None]:
    """The same with a table in memory, written, read by an index and emptied."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE job (id TEXT PRIMARY KEY, rank INTEGER, body BLOB) WITHOUT ROWID")
    connection.execute("CREATE INDEX by_rank ON job (rank, id)")

    def run(steps: int) -> None:
        rows = [(f"{step:032x}", step % 10, b"x" * 200) for step in range(steps)]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO job VALUES (?, ?, ?)", rows)
        found = connection.execute("SELECT id FROM job ORDER BY rank, id").fetchall()
        connection.executemany("UPDATE job SET rank = rank + 1 WHERE id = ?", found)
        connection.executemany("DELETE FROM job WHERE id = ?", found)
        connection.execute("COMMIT")
        plain(steps)

    return run
