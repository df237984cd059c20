"""Logs of a worker: a log line for each verdict, and the execution log, a dated file with a line of JSON for each.

Deaths are logged as CRITICAL, other outcomes as INFO, jobs that only go back to their queue at no cost as DEBUG.
In the execution log, secrets are masked and long texts are cut.
"""

import errno
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec import UNSET

from tenure.backends.messages import Abandon, Ack, Nack, Park, Verdict
from tenure.clock import MICROSECOND, Clock, to_datetime
from tenure.errors import InvalidJob
from tenure.events import Settlement, Status
from tenure.execution.outcome import truncate
from tenure.redaction import Redactor, escape_controls, one_line
from tenure.wire.envelope import Envelope, peek
from tenure.worker.pipeline import settlement

logger = logging.getLogger(__name__)

_PHRASES = {
    Status.ACKED: "is done",
    Status.REQUEUED: "will be retried",
    Status.CANCELLED: "is cancelled",
    Status.EXPIRED: "has expired",
    Status.SKIPPED_IDEMPOTENT: "is skipped",
}
_DATE_DIRECTIVE = re.compile(r"%.")
_MOVED_POLL_SECONDS = 1.0
_LONGEST_SECRET = 8192  # characters: a private key of 8192 bits has 6300


def log_outcomes(verdicts: Sequence[Verdict]) -> None:
    """One log line for each verdict, with its ids in `extra`."""
    logs_all = logger.isEnabledFor(logging.INFO)
    for verdict in verdicts:
        if isinstance(verdict, Abandon):
            _log_death(verdict)
        elif logs_all:
            _log(verdict)


def _log_death(verdict: Abandon) -> None:
    settled = settlement(verdict)
    logger.critical(
        "job %s on queue %r is dead (%s): %s",
        one_line(settled.id), settled.queue, settled.reason, one_line(settled.error or "no error"),
        extra=log_fields(settled),
    )  # fmt: skip


def _log(verdict: Ack | Nack | Park) -> None:
    settled = settlement(verdict)
    level = logging.INFO if settled.status in _PHRASES else logging.DEBUG
    if not logger.isEnabledFor(level):
        return
    why = settled.error or settled.reason
    logger.log(
        level,
        "job %s on queue %r %s, attempt %d%s%s",
        one_line(settled.id), settled.queue, _PHRASES.get(settled.status, "goes back"), settled.attempt,
        f", {settled.run.seconds:.3g} s" if settled.run else "", f": {one_line(why)}" if why else "",
        extra=log_fields(settled),
    )  # fmt: skip


def log_fields(settled: Settlement) -> dict[str, Any]:
    """The fields of a structured log line about a verdict; unknown ones are left out."""
    run = settled.run
    fields: dict[str, Any] = {
        "job": settled.id,
        "queue": settled.queue,
        "status": settled.status.value,
        "attempt": settled.attempt,
        "reason": settled.reason,
        "error": settled.error,
    }
    if run is not None:
        fields |= {
            "handler": run.handler,
            "seconds": round(run.seconds, 6),
            "wait": run.wait,
            "cpu": run.cpu,
            "memory": run.memory,
            "worker": run.worker,
        }
    return {name: value for name, value in fields.items() if value is not None}


class ExecutionLog:
    """Called with the settled verdicts of a batch. If the file cannot be written, the lines are lost; logged once."""

    def __init__(self, file: "DatedLogFile", clock: Clock, redactor: Redactor, max_length: int) -> None:
        """Texts are cut at `max_length` characters."""
        self._file = file
        self._clock = clock
        self._redactor = redactor
        self._max_length = max_length
        self._lock = threading.Lock()
        self._stream: TextIO | None = None
        self._failed = False

    def __call__(self, verdicts: Sequence[Verdict]) -> None:
        lines = [line for verdict in verdicts if (line := self._line_or_none(verdict))]
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
        if self._stream is None or self._file.is_outdated(self._stream):
            old, self._stream = self._stream, self._file.open()
            if old:
                old.close()
        self._stream.write(text)
        self._stream.flush()

    def _line_or_none(self, verdict: Verdict) -> str | None:
        try:
            return self._line(verdict)
        except Exception as error:  # the job is settled; a line that cannot be written must not stop the worker
            logger.error("no line of the execution log for job %s: %s", one_line(verdict.lease.id), error)  # noqa: TRY400
            return None

    def _line(self, verdict: Verdict) -> str | None:
        settled = settlement(verdict)
        if settled.status is Status.POSTPONED and settled.run is None:
            return None
        now = self._clock.now()
        entry = {"time": to_datetime(now), **log_fields(settled), "fence": verdict.lease.fence}
        if settled.run is not None:
            entry["started"] = to_datetime(settled.run.started)
            entry["ended"] = to_datetime(settled.run.started + round(settled.run.seconds * MICROSECOND))
        entry |= self._message_fields(verdict)
        if isinstance(verdict, Ack) and verdict.output is not None:
            length = (verdict.run and verdict.run.output_length) or len(verdict.output)
            entry |= {"output": self._text(verdict.output, length), "output_length": length}
        if not isinstance(verdict, Ack) and (trace := getattr(getattr(verdict, "failure", None), "trace", None)):
            entry["trace"] = self._text(trace)
        entry = {name: self._text(value) if name == "error" else value for name, value in entry.items()}
        return f"{escape_controls(msgspec.json.encode(entry).decode())}\n"

    def _message_fields(self, verdict: Verdict) -> dict[str, Any]:
        """Fields of the message, if it can be read; those of a rejected message cannot be trusted and are left out."""
        if isinstance(verdict, Abandon) and settlement(verdict).status is Status.REJECTED:
            return {}
        try:
            envelope = peek(verdict.lease.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidJob):
            return {}
        fields = {"handler": envelope.job, "name": envelope.name, "parent": _parent(envelope)}
        payload = self._payload(envelope)
        if payload is not None:
            fields["payload"] = truncate(payload, self._max_length)
            fields["payload_hash"] = hashlib.sha256(payload.encode()).hexdigest()
        return {name: value for name, value in fields.items() if value is not None}

    def _payload(self, envelope: Envelope) -> str | None:
        """As JSON, masked; the hash is of the masked text, so that it reveals no secret; None if it is not JSON."""
        try:
            value = msgspec.json.decode(envelope.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return msgspec.json.encode(self._redactor.mask(value)).decode()

    def _text(self, text: str, length: int | None = None) -> str:
        """Masked and cut; what lies beyond the cut and a margin, in which a secret may end, is not read.

        `length` is the full length of a text that was cut before.
        """
        masked = self._redactor.text(text[: self._max_length + _LONGEST_SECRET])
        return truncate(masked, self._max_length, length or len(text))


def _parent(envelope: Envelope) -> str | None:
    parent = None if envelope.meta is UNSET else envelope.meta.get("parent")
    found = parent.get("id") if isinstance(parent, dict) else None
    return found if isinstance(found, str) else None


def _open_log(name: str, flags: int) -> int:
    """Open for this user alone if it is new; follow a link only if root or this user made it, such as /dev/stdout."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP or Path(name).lstat().st_uid not in (0, os.geteuid()):
            raise
    return os.open(name, flags | os.O_CLOEXEC, 0o600)


class DatedLogFile:
    """A log file whose name contains the date, such as `work-%Y-%m-%d.log`.

    Of this file and its predecessors `keep` files stay, or all of them when `keep` is 0.
    """

    def __init__(self, pattern: str, keep: int = 0) -> None:
        self._pattern = pattern
        self.keep = keep
        self._check_at = 0.0
        self.name = time.strftime(pattern)

    def open(self) -> TextIO:
        """Open today's file for appending; predecessors beyond `keep` are deleted."""
        self.name = time.strftime(self._pattern)
        self.prune()
        return open(self.name, "a", encoding="utf-8", errors="backslashreplace", opener=_open_log)

    def is_outdated(self, stream: TextIO) -> bool:
        """Whether the date has changed, or another program has moved the file, as logrotate does."""
        if time.strftime(self._pattern) != self.name:
            return True
        if (now := time.monotonic()) < self._check_at:
            return False
        self._check_at = now + _MOVED_POLL_SECONDS
        try:
            return not os.path.samestat(os.fstat(stream.fileno()), Path(self.name).stat())
        except OSError:
            return not Path(self.name).exists()

    def prune(self) -> None:
        """Delete predecessors beyond `keep`; only files whose name fits the pattern count as predecessors."""
        pattern, current = Path(self._pattern), Path(self.name)
        if not self.keep or "%" in str(pattern.parent) or "%" not in pattern.name:
            return
        dated = []
        for path in current.parent.glob(_DATE_DIRECTIVE.sub("*", pattern.name)):
            with suppress(ValueError):
                dated.append((time.strptime(path.name, pattern.name), path))
        older = [path for _, path in sorted(dated, reverse=True) if path != current]
        for path in older[self.keep - 1 :]:
            with suppress(OSError):
                path.unlink()
