"""Running a program to its end: its own process group, both pipes drained, output kept within bounds, no survivors."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from tenure.definition.context import Context
from tenure.errors import CommandFailed, DeadlineExceeded

_CHUNK = 65_536
_LOOK = 0.1  # seconds between looks at a program that closed its pipes, or left them to others
_LAST_WORDS = 0.5  # for reading what a dead program left in its pipes
_TAIL = 2_000


class Kept:
    """The beginning of a stream, up to a limit, and its end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self._size += len(data)
        self._head += data[: max(0, self._limit - len(self._head))]
        self._tail = (self._tail + data)[-_TAIL:]

    def text(self) -> str:
        cut = f"… ({self._size} bytes in all)" if self._size > len(self._head) else ""
        return self._head.decode("utf-8", "replace") + cut

    def end(self) -> str:
        return self._tail.decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended; a negative code is the signal that killed it."""

    code: int
    out: Kept
    err: Kept

    def check(self, name: str) -> None:
        """Raise CommandFailed unless the exit code is 0."""
        if self.code == 0:
            return
        how = f"ended with exit code {self.code}" if self.code > 0 else f"was killed by {_signal_name(-self.code)}"
        last = "\n".join(part for part in (self.out.end(), self.err.end()) if part)
        raise CommandFailed(f"{name} {how}" + (f"; its last output:\n{last}" if last else ""), self.code)


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a program must have ended, by the monotonic clock, and how much of its output is kept."""

    until: float
    is_attempts: bool  # the attempt's own deadline comes first
    max_output: int


def bounds(context: Context, timeout: float, max_output: int) -> Bounds:
    until = time.monotonic() + timeout
    own = context.deadline is not None and context.deadline <= until
    return Bounds(context.deadline if own and context.deadline else until, own, max_output)


def run(
    name: str,
    argv: Sequence[str],
    limits: Bounds,
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    umask: int = -1,
) -> Ended:
    """Run it; whatever happens here, nothing of its process group lives on."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=None if environment is None else dict(environment),
        cwd=folder,
        umask=umask,
    )
    out, err = Kept(limits.max_output), Kept(limits.max_output)
    pipes = dict(zip(filter(None, (process.stdout, process.stderr)), (out, err), strict=True))
    try:
        _drain(process, pipes, limits.until)
        if not _has_ended(process):
            raise _too_late(name, limits)
    finally:
        _end_group(process)
        for pipe in pipes:
            pipe.close()
    return Ended(process.returncode, out, err)


def _drain(process: "subprocess.Popen[bytes]", streams: dict[IO[bytes], Kept], until: float) -> None:
    """Read until the program has ended or its time is up; a grandchild may hold the pipes open after that."""
    with selectors.DefaultSelector() as selector:
        for stream, kept in streams.items():
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, kept)
        while not _has_ended(process) and (left := until - time.monotonic()) > 0:
            if selector.get_map():
                _read(selector, min(left, _LOOK))
            else:
                time.sleep(min(left, _LOOK / 10))
        if not _has_ended(process):
            return
        _kill_group(process)
        stop = time.monotonic() + _LAST_WORDS
        while selector.get_map() and time.monotonic() < stop and _read(selector, _LOOK):
            pass


def _read(selector: selectors.BaseSelector, wait: float) -> bool:
    ready = selector.select(wait)
    for key, _ in ready:
        with suppress(BlockingIOError):
            data = os.read(key.fd, _CHUNK)
            if data:
                key.data.add(data)
            else:
                selector.unregister(key.fileobj)
    return bool(ready)


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Without reaping it: as long as the leader is a zombie, nobody else can get the number of its group."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody in this process waits for every child
        return True


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    _kill_group(process)
    process.wait()


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _too_late(name: str, limits: Bounds) -> BaseException:
    if limits.is_attempts:
        return DeadlineExceeded("the attempt ran past its timeout")
    return CommandFailed(f"{name} was killed because it ran longer than its settings allow", -signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
