"""What `tenure work` prints while it runs: a live line on a terminal, elsewhere one line per retried job.

With JSON logs these messages are log records, and nothing is printed.
Dead letters are logged by the worker, which knows their cause.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Self, TextIO

from tenure.app import Tenure
from tenure.backends.url import shown_url
from tenure.cli.logs import progress_log
from tenure.cli.output import LiveLine, format_lane
from tenure.events import Event, Settled, Status
from tenure.redaction import printable
from tenure.worker.lane import Lane

_REDRAW_INTERVAL = 0.2
_RATE_WINDOW = 5.0  # seconds
_ALWAYS_SHOWN = ("done", "retried", "dead")
_STATUS_WORDS = {
    Status.ACKED: "done",
    Status.REQUEUED: "retried",
    Status.DEAD_LETTERED: "dead",
    Status.REJECTED: "dead",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "expired",
    Status.SKIPPED_IDEMPOTENT: "skipped",
    Status.POSTPONED: "postponed",
}


class WorkProgress:
    """Shows a worker's counts as they grow; the stream is the real stdout, taken before handlers' prints are caught."""

    def __init__(self, app: Tenure, tally: Counter[Status], stream: TextIO) -> None:
        self._app = app
        self._tally = tally
        self._stream = stream
        self._line = LiveLine(stream)
        self._is_json = app.settings.log_format == "json"
        self._is_live = self._line.is_live and not self._is_json
        self._rate = _JobRate()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="tenure-progress", daemon=True)

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if self._is_live:
            self._thread.start()
        self._app.listen(self._on_event)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._is_live:
            self._ended.set()
            self._thread.join()
        self._print(f"Stopped after {time.monotonic() - self._started:.1f} s: {describe_counts(self._tally)}")

    def print_start(self, lanes: Sequence[Lane], pid: int) -> None:
        shown = "; ".join(map(format_lane, lanes))
        self._print(f"Working on {shown} at {shown_url(self._app.settings.url)}, pid {pid}")

    def _redraw(self) -> None:
        with self._line:
            while not self._ended.wait(_REDRAW_INTERVAL):
                rate = self._rate.per_second(time.monotonic(), self._tally.total())
                self._line.show(f"{describe_counts(self._tally)}, {rate:.0f}/s")

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Settled):
            for each in event.settlements:
                if each.status is Status.REQUEUED:
                    text = f"retried {each.id} on queue {each.queue}: attempt {each.attempt} {each.reason}"
                    ids = {"job": each.id, "queue": each.queue, "attempt": each.attempt, "reason": each.reason}
                    self._print(text, log_only=self._is_live, **ids)

    def _print(self, text: str, *, log_only: bool = False, **ids: object) -> None:
        progress_log.info("%s", text, extra=ids)
        if not (log_only or self._is_json):
            self._stream.write(f"{printable(text)}\n")
            self._stream.flush()


def count_dead(tally: Counter[Status]) -> int:
    return tally[Status.DEAD_LETTERED] + tally[Status.REJECTED]


def describe_counts(tally: Counter[Status]) -> str:
    """As `12 done, 1 retried, 0 dead`."""
    counts: Counter[str] = Counter()
    for status, count in list(tally.items()):
        counts[_STATUS_WORDS.get(status, status.value)] += count
    shown = [*_ALWAYS_SHOWN, *sorted(word for word in counts if word not in _ALWAYS_SHOWN)]
    return ", ".join(f"{counts[word]} {word}" for word in shown)


class _JobRate:
    """Jobs per second over the last few seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def per_second(self, now: float, count: int) -> float:
        self._samples.append((now, count))
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_WINDOW:
            self._samples.popleft()
        (since, before) = self._samples[0]
        return (count - before) / (now - since) if now > since else 0.0
