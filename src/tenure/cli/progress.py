"""What `tenure work` tells while it runs: a live line on a terminal, else a line for each job that is retried.

Where logs are JSON, all of it is logged and nothing printed.
Dead letters are told by the worker's log, which knows their cause.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Self, TextIO

from tenure.app import Tenure
from tenure.backends.opening import without_secrets
from tenure.cli import printing
from tenure.cli.live import LiveLine
from tenure.cli.logs import is_console
from tenure.events import Event, Settled, Status
from tenure.redaction import printable
from tenure.worker.lane import Lane

journal = logging.getLogger("tenure.journal")  # what is told here, for a log file; nobody else hears it
journal.propagate = False
journal.setLevel(logging.INFO)

_EVERY = 0.2
_WINDOW = 5.0
_ALWAYS = ("done", "retried", "dead")
_WORDS = {
    Status.ACKED: "done",
    Status.REQUEUED: "retried",
    Status.DEAD_LETTERED: "dead",
    Status.REJECTED: "dead",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "expired",
    Status.SKIPPED_IDEMPOTENT: "skipped",
    Status.POSTPONED: "postponed",
}


def died(tally: Counter[Status]) -> int:
    return tally[Status.DEAD_LETTERED] + tally[Status.REJECTED]


def in_words(tally: Counter[Status]) -> str:
    counts: Counter[str] = Counter()
    for status, count in list(tally.items()):
        counts[_WORDS.get(status, status.value)] += count
    shown = [*_ALWAYS, *sorted(word for word in counts if word not in _ALWAYS)]
    return ", ".join(f"{counts[word]} {word}" for word in shown)


class Pace:
    """How many a second, over the last few seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()

    def rate(self, now: float, count: int) -> float:
        self._marks.append((now, count))
        while len(self._marks) > 2 and now - self._marks[0][0] > _WINDOW:
            self._marks.popleft()
        (since, before) = self._marks[0]
        return (count - before) / (now - since) if now > since else 0.0


class Progress:
    """Shows a worker's tally as it grows; the stream is the real stdout, taken before handlers' prints are caught."""

    def __init__(self, app: Tenure, tally: Counter[Status], stream: TextIO) -> None:
        self._app = app
        self._tally = tally
        self._stream = stream
        self._line = LiveLine(stream)
        self._is_json = app.settings.log_format == "json"
        self._is_live = self._line.is_live and not self._is_json
        self._pace = Pace()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="tenure-progress", daemon=True)

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        if self._is_json:
            for console in filter(is_console, logging.root.handlers):
                journal.addHandler(console)
        if self._is_live:
            self._thread.start()
        self._app.listen(self._tell)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._is_live:
            self._ended.set()
            self._thread.join()
        self._say(f"Stopped after {time.monotonic() - self._begun:.1f} s: {in_words(self._tally)}")

    def start(self, lanes: Sequence[Lane], pid: int) -> None:
        shown = "; ".join(map(printing.lane, lanes))
        self._say(f"Working on {shown} at {without_secrets(self._app.settings.url)}, pid {pid}")

    def _draw(self) -> None:
        with self._line:
            while not self._ended.wait(_EVERY):
                rate = self._pace.rate(time.monotonic(), self._tally.total())
                self._line.show(f"{in_words(self._tally)}, {rate:.0f}/s")

    def _tell(self, event: Event) -> None:
        if isinstance(event, Settled):
            for each in event.settlements:
                if each.status is Status.REQUEUED:
                    text = f"retried {each.id} on queue {each.queue}: attempt {each.attempt} {each.reason}"
                    ids = {"job": each.id, "queue": each.queue, "attempt": each.attempt, "reason": each.reason}
                    self._say(text, journal_only=self._is_live, **ids)

    def _say(self, text: str, *, journal_only: bool = False, **ids: object) -> None:
        journal.info("%s", text, extra=ids)
        if not (journal_only or self._is_json):
            self._stream.write(f"{printable(text)}\n")
            self._stream.flush()
