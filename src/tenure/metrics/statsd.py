"""StatsD: a collector that sends counters, gauges and timings over UDP, to StatsD itself or to an agent of Datadog.

Jobs and producers only add to memory. A thread sends once a second, so that a slow name server or a full network
delays no job, and nothing raises. What no server receives is lost, and so is the last second of a killed process.
"""

import atexit
import logging
import os
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tenure.errors import SettingsError

logger = logging.getLogger(__name__)

MAX_PACKET = 1432  # bytes: what fits into a frame of Ethernet with the headers of IPv6, and so is never cut in two
_SEND_INTERVAL = 1.0
_CLOSE_TIMEOUT = 2.0  # for the last send: a name server may not answer
_MAX_TIMINGS = 100_000  # kept between two sends; more are dropped
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")
_NOT_IN_TAGS = re.compile(r"[|,#\n\r]")
_OPTIONS = ("prefix", "format")
_FORMATS = ("statsd", "dogstatsd")
_Call = tuple[Any, ...]  # the name, the type, and the labels in the order of the caller


class StatsD:
    """Labels are parts of the name, such as `tenure.jobs_succeeded.emails`, or tags if the format is `dogstatsd`."""

    def __init__(
        self, host: str = "127.0.0.1", port: int = 8125, *, prefix: str = "tenure", format: str = "statsd"
    ) -> None:
        if format not in _FORMATS:
            raise SettingsError(f"the format of StatsD must be statsd or dogstatsd, not {format!r}")
        self._address = (host, port)
        self._prefix = f"{prefix}." if prefix else ""
        self._has_tags = format == "dogstatsd"
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failed = False
        self._pid = os.getpid()
        self._forget()

    @classmethod
    def from_url(cls, url: str) -> "StatsD":
        """From `statsd://host:port?prefix=tenure&format=dogstatsd`."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        try:
            port = parts.port or 8125
        except ValueError as error:
            raise SettingsError(f"the setting metrics has a bad port in {url!r}: {error}") from error
        if unknown := [name for name in options if name not in _OPTIONS]:
            raise SettingsError(
                f"the setting metrics has the unknown option {unknown[0]!r} in {url!r}; it takes {', '.join(_OPTIONS)}"
            )
        return cls(parts.hostname or "127.0.0.1", port, **options)

    def increment(self, name: str, value: float = 1, **labels: str) -> None:
        if value:
            self._run()
            with self._lock:
                self._counts[name, "c", *labels.items()] += value

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """A present value; only the last one before the next send counts."""
        self._run()
        with self._lock:
            self._gauges[name, "g", *labels.items()] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        self.observe_all(name, [value], **labels)

    def observe_all(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Seconds are sent as timings in milliseconds, other values as a histogram, which plain StatsD calls timing."""
        self._run()
        kind = "ms" if name.endswith("_seconds") or not self._has_tags else "h"
        with self._lock:
            room = _MAX_TIMINGS - self._timing_count
            self._timings.setdefault((name, kind, *labels.items()), []).extend(values[:room])
            self._timing_count += min(room, len(values))

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Empty: what was sent is not kept."""
        return {"counters": {}, "histograms": {}}

    def flush(self) -> None:
        """Send what has been counted since the last send, in the calling thread."""
        with self._lock:
            counts, gauges, timings = self._counts, self._gauges, self._timings
            self._forget()
        lines = [self._line(call, value) for call, value in (*counts.items(), *gauges.items())]
        lines += [self._line(call, value) for call, values in timings.items() for value in values]
        if lines:
            self._send(lines)

    def close(self) -> None:
        """Let the thread send the rest and end; a later count starts it again. In a forked process there is none."""
        self._stopping.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT)
        atexit.unregister(self.close)

    def _forget(self) -> None:
        self._counts: defaultdict[_Call, float] = defaultdict(float)
        self._gauges: dict[_Call, float] = {}
        self._timings: dict[_Call, list[float]] = {}
        self._timing_count = 0

    def _line(self, call: "_Call", value: float) -> str:
        name, kind, *labels = call
        factor = 1000 if name.endswith("_seconds") and kind == "ms" else 1
        before, after = _ends(self._prefix, self._has_tags, name, kind, tuple(sorted(labels)))
        return f"{before}{_number(value * factor)}{after}"

    def _run(self) -> None:
        """Start the thread at the first count, and again in a process that was forked from this one."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if self._pid != os.getpid():  # the parent process sends what it has counted
                self._pid = os.getpid()
                self._forget()
            self._stopping = threading.Event()
            self._thread = threading.Thread(target=self._send_often, name="tenure-statsd", daemon=True)
            self._thread.start()
            atexit.unregister(self.close)
            atexit.register(self.close)

    def _send_often(self) -> None:
        stopping = self._stopping
        while not stopping.wait(_SEND_INTERVAL):
            self.flush()
        self.flush()

    def _send(self, lines: list[str]) -> None:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as sender:
                sender.setblocking(False)
                for packet in packets(lines):
                    sender.sendto(packet, address)
            self._failed = False
        except OSError as error:
            if not self._failed:  # one line for an outage, not one a second
                logger.warning("metrics are not sent to StatsD at %s:%d: %s", *self._address, error)
            self._failed = True


@lru_cache(5000)
def _ends(prefix: str, has_tags: bool, name: str, kind: str, labels: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """A line before and after its value."""
    plain = name.removeprefix("tenure_").removesuffix("_total")
    plain = prefix + _NOT_IN_NAMES.sub("_", plain.removesuffix("_seconds") if kind == "ms" else plain)
    if has_tags:
        tags = ",".join(f"{label}:{_NOT_IN_TAGS.sub('_', str(value))}" for label, value in labels)
        return f"{plain}:", f"|{kind}|#{tags}" if tags else f"|{kind}"
    parts = [_NOT_IN_NAMES.sub("_", str(value)).replace(".", "_") or "_" for _, value in labels]
    return f"{'.'.join([plain, *parts])}:", f"|{kind}"


def packets(lines: Sequence[str]) -> Iterator[bytes]:
    """The lines in as few packets as possible; a line that is too long for a packet is left out."""
    packet = b""
    for line in lines:
        encoded = line.encode("utf-8", "backslashreplace")
        if len(encoded) > MAX_PACKET:
            continue
        if packet and len(packet) + 1 + len(encoded) > MAX_PACKET:
            yield packet
            packet = b""
        packet += (b"\n" if packet else b"") + encoded
    if packet:
        yield packet


def _number(value: float) -> str:
    """Without an exponent, which servers do not read."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
