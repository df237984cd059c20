"""What the door costs: verifying, opening, decoding and calling, against the least that any code doing so must pay."""

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tenure import Context, Tenure
from tenure.backends.messages import Lease
from tenure.clock import SystemClock
from tenure.execution.attempt import Performer
from tenure.wire.envelope import Envelope
from tenure.wire.signing import SEAL_SIZE, Key
from tenure.worker.pipeline import JobDefaults, Pipeline

_BATCH = 250
_SECRET = bytes(range(32))
_BLOCK = 64


def door(jobs: int) -> dict[str, float]:
    """Microseconds a job for Tenure and for the floor, alone and beside a busy thread, and their ratio."""
    with Tenure("memory://", keys=[Key("k1", _SECRET).dump()]) as app:
        app.job(name="noop")(_noop)
        leases = _leases(app, min(jobs, 10_000))
        floor, ours, whole = _floor(), _ours(app), _whole(app)
        alone = _compared(leases, floor, ours, whole)
        with _busy_thread():
            beside = _compared(leases[:1000], floor, ours)
    return {
        "floor µs": alone[0],
        "door µs": alone[1],
        "whole attempt µs": alone[2],
        "ratio": alone[1] / alone[0],
        "ratio beside a busy thread": beside[1] / beside[0],
    }


def _noop(i: int) -> None:
    """Does nothing."""


def _leases(app: Tenure, count: int) -> list[Lease]:
    app.enqueue_many(app.define("noop", {"i": i}).build() for i in range(count))
    return app.backend.lease(["default"], limit=count, seconds=3600)


def _ours(app: Tenure) -> Callable[[list[Lease]], None]:
    """Every check at the door, the payload in its declared type, a context, and the call."""
    wire, resolve = app.open_backend().wire, app.registry.resolve

    def run(leases: list[Lease]) -> None:
        for lease in leases:
            envelope = wire.open(lease.body, lease.queue, lease.id)
            handler = resolve(envelope.job, lease.queue)
            value = handler.shape.unpack(envelope.payload)
            context = Context(id=envelope.identifier, handler=envelope.job, payload=value, queue=envelope.queue)
            handler.call(context, value)

    return run


def _whole(app: Tenure) -> Callable[[list[Lease]], None]:
    """The same with all that surrounds an attempt: deadline, capture, hooks, the outcome."""
    pipeline = Pipeline(app.open_backend().wire, app.registry, SystemClock(), JobDefaults(retry=app.retry))

    def run(leases: list[Lease]) -> None:
        with Performer(SystemClock()) as performer:
            for start in range(0, len(leases), _BATCH):
                for attempt in pipeline.admit(leases[start : start + _BATCH])[0]:
                    performer.perform(attempt)

    return run


def _floor() -> Callable[[list[Lease]], None]:
    """One pass of the hash, one comparison, one decoding of envelope and payload, a context, a call; nothing else."""
    key = hmac.digest(_SECRET, b"tenure envelope signing key", "sha256").ljust(_BLOCK, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + b"tenure.envelope.v1\0")
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))
    envelopes = msgspec.json.Decoder(Envelope)
    payloads = msgspec.json.Decoder(msgspec.defstruct("noop", [("i", int)]))

    def run(leases: list[Lease]) -> None:
        for lease in leases:
            body = lease.body
            first, second = inner.copy(), outer.copy()
            first.update(body[:-SEAL_SIZE])
            second.update(first.digest())
            assert hmac.compare_digest(second.hexdigest().encode(), body[-66:-2])
            envelope = envelopes.decode(body)
            value: Any = payloads.decode(envelope.payload)
            Context(id=envelope.identifier, handler=envelope.job, payload=value, queue=envelope.queue)
            _noop(value.i)

    return run


def _compared(leases: list[Lease], *runs: Callable[[list[Lease]], None]) -> list[float]:
    """The best of many short turns, taken in turn, so that all meet the same machine."""
    best = [float("inf")] * len(runs)
    for start in range(0, len(leases), _BATCH):
        batch = leases[start : start + _BATCH]
        for number, run in enumerate(runs):
            begun = time.perf_counter()
            run(batch)
            best[number] = min(best[number], (time.perf_counter() - begun) / len(batch) * 1e6)
    return best


@contextmanager
def _busy_thread() -> Iterator[None]:
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
