"""Batches as columns on their way in, and rows as leases on their way out."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack
from tenure.backends.sql.dialect import Row
from tenure.backends.sql.postgresql.arrays import bytes_array, number_array, text_array
from tenure.clock import MICROSECOND


def put_parameters(messages: Sequence[Message]) -> dict[str, Any]:
    """The columns of a batch, as arrays."""
    return {
        "ids": text_array([m.id for m in messages]),
        "queues": text_array([m.queue for m in messages]),
        "ranks": number_array([-m.priority for m in messages]),
        "handlers": text_array([m.handler for m in messages]),
        "names": text_array([m.name for m in messages]),
        "dues": number_array([m.due for m in messages]),
        "delays": number_array([round(m.delay * MICROSECOND) for m in messages]),
        "bodies": bytes_array([m.body for m in messages]),
        "uniques": text_array([m.unique for m in messages]),
    }


def charges(verdicts: Sequence[Nack | Abandon]) -> dict[str, str]:
    return {
        "ids": text_array([v.lease.id for v in verdicts]),
        "records": text_array([msgspec.json.encode(v.failure).decode() if v.failure else None for v in verdicts]),
        "attempts": number_array([int(v.charge == "attempt") for v in verdicts]),
        "crashes": number_array([int(v.charge == "crash") for v in verdicts]),
    }


def run_array(verdicts: Sequence[Ack]) -> str:
    """What the last attempts took, of those that ran."""
    return text_array([msgspec.json.encode(v.run).decode() if v.run else None for v in verdicts])


def key_of(verdict: Ack | Nack | Abandon) -> int:
    key: int = verdict.lease.token
    return key


def lease_of(queue: str, owner: str, row: Row) -> Lease:
    _, _, _, key, rank, attempts, crashes, fence, suspect, id, due, body = row
    return Lease(
        id=id,
        queue=queue,
        body=body,
        owner=owner,
        fence=fence,
        attempts=attempts,
        crashes=crashes,
        suspect=bool(suspect),
        priority=-rank,
        due=due,
        token=key,
    )
