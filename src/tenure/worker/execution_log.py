"""ExecutionLog: a line of JSON for each attempt and each end of a job, in a dated file.

Secrets are masked, and long texts cut.
"""

import hashlib
import logging
import threading
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec
from msgspec import UNSET

from tenure.backends.contract import Abandon, Ack, Verdict
from tenure.clock import MICROSECOND, Clock, to_datetime
from tenure.events import Status
from tenure.execution.outcome import cut
from tenure.redaction import Redactor
from tenure.wire.envelope import Envelope, peek
from tenure.worker.dated import Dated
from tenure.worker.outcomes import facts
from tenure.worker.verdict import settlement

logger = logging.getLogger(__name__)


class ExecutionLog:
    """Called with the verdicts of a batch once they are settled; what cannot be written is told once, and lost."""

    def __init__(self, file: Dated, clock: Clock, redactor: Redactor, longest: int) -> None:
        """Texts are kept up to `longest` characters."""
        self._file = file
        self._clock = clock
        self._redactor = redactor
        self._longest = longest
        self._lock = threading.Lock()
        self._stream: TextIO | None = None
        self._failed = False

    def __call__(self, verdicts: Sequence[Verdict]) -> None:
        lines = [line for verdict in verdicts if (line := self._line(verdict))]
        if not lines:
            return
        with self._lock:
            try:
                self._write("".join(lines))
                self._failed = False
            except OSError as error:
                if not self._failed:
                    logger.error("the execution log %r cannot be written: %s", self._file.name, error)  # noqa: TRY400
                self._failed = True

    def close(self) -> None:
        with self._lock:
            if self._stream:
                self._stream.close()
                self._stream = None

    def _write(self, text: str) -> None:
        if self._stream is None or self._file.is_past(self._stream):
            old, self._stream = self._stream, self._file.open()
            if old:
                old.close()
        self._stream.write(text)
        self._stream.flush()

    def _line(self, verdict: Verdict) -> str | None:
        told = settlement(verdict)
        if told.status is Status.POSTPONED and told.run is None:
            return None
        now = self._clock.now()
        entry = {"time": to_datetime(now), **facts(verdict, told), "fence": verdict.lease.fence}
        if told.run is not None:
            entry["started"] = to_datetime(told.run.started)
            entry["ended"] = to_datetime(told.run.started + round(told.run.seconds * MICROSECOND))
        entry |= self._message(verdict)
        if isinstance(verdict, Ack) and verdict.output is not None:
            entry |= {"output": self._text(verdict.output), "output_length": len(verdict.output)}
        if not isinstance(verdict, Ack) and (trace := getattr(getattr(verdict, "failure", None), "trace", None)):
            entry["trace"] = self._text(trace)
        entry = {name: self._text(value) if name == "error" else value for name, value in entry.items()}
        return f"{msgspec.json.encode(entry).decode()}\n"

    def _message(self, verdict: Verdict) -> dict[str, Any]:
        """What the message says of itself, if it can be read; a forged one vouches for nothing and is left out."""
        if isinstance(verdict, Abandon) and settlement(verdict).status is Status.REJECTED:
            return {}
        try:
            envelope = peek(verdict.lease.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}
        payload = self._payload(envelope)
        said = {
            "handler": envelope.job,
            "name": envelope.name,
            "parent": _parent(envelope),
            "payload": cut(payload, self._longest),
            "payload_hash": hashlib.sha256(payload.encode()).hexdigest(),
        }
        return {name: value for name, value in said.items() if value is not None}

    def _payload(self, envelope: Envelope) -> str:
        """As JSON, masked; the hash is of this text, so that it gives nothing away."""
        return msgspec.json.encode(self._redactor.mask(msgspec.json.decode(envelope.payload))).decode()

    def _text(self, text: str) -> str:
        return cut(self._redactor.text(text), self._longest)


def _parent(envelope: Envelope) -> str | None:
    parent = None if envelope.meta is UNSET else envelope.meta.get("parent")
    found = parent.get("id") if isinstance(parent, dict) else None
    return found if isinstance(found, str) else None
