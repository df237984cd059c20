"""Rows and batches as SQLite's JSON has them, and what they stand for."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
from msgspec import Struct

from tenure.backends.contract import Ack, Lease, Message
from tenure.backends.sql.dialect import Expired
from tenure.clock import MICROSECOND


class Ready(Struct, array_like=True, gc=False):
    """One claimed row, as CLAIM writes it."""

    key: int
    id: str
    rank: int
    attempts: int
    crashes: int
    fence: int
    suspect: bool
    due: int
    size: int


Granted = tuple[str, Ready, bytes]  # the queue, the row and the body
_to_json = msgspec.json.Encoder().encode
ready_rows = msgspec.json.Decoder(list[Ready], strict=False).decode
expired_rows = msgspec.json.Decoder(list[Expired], strict=False).decode
key_list = msgspec.json.Decoder(list[int]).decode
pairs_of = msgspec.json.Decoder(list[tuple[str, int]]).decode


def to_text(value: Any) -> str:
    return _to_json(value).decode()


def due_of(message: Message, now: int) -> int:
    return message.due or (now + round(message.delay * MICROSECOND) if message.delay else now)


def granted(queue: str, rows: list[Ready], bodies: bytes) -> list[Granted]:
    ends = list(accumulate((row.size for row in rows), initial=0))
    return [(queue, row, bodies[start:end]) for row, (start, end) in zip(rows, pairwise(ends), strict=True)]


def lease_of(queue: str, row: Ready, body: bytes, owner: str) -> Lease:
    return Lease(
        id=row.id,
        queue=queue,
        body=body,
        owner=owner,
        fence=row.fence,
        attempts=row.attempts,
        crashes=row.crashes,
        suspect=row.suspect,
        priority=-row.rank,
        due=row.due,
        token=row.key,
    )


def are_plain_runs(verdicts: Sequence[Ack]) -> bool:
    """Whether there is nothing to keep of these but how they ran."""
    state = verdicts[0].state
    return all(
        v.run is not None
        and v.run.seconds == v.seconds
        and v.output is None
        and v.reason is None
        and v.change is None
        and v.state == state
        for v in verdicts
    )
