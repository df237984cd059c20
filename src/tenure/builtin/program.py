"""Runs a program until it ends or its time is up, and captures its output within a limit.

The program gets its own process group, which is killed at the end: no process of it is left.
"""

import os
import selectors
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tenure.definition.context import Context
from tenure.errors import CommandFailed, DeadlineExceeded

if TYPE_CHECKING:
    import subprocess

_CHUNK = 65_536
_POLL_SECONDS = 0.1  # between checks whether the program has ended
_DRAIN_TIMEOUT = 0.5  # for reading what is left in the pipes of an ended program
_TAIL_BYTES = 2_000
_MAX_KEPT = 65_536 - 64  # a record has 65 536 characters, and the note about the full size needs some of them


class CapturedOutput:
    """The beginning of a stream, up to a limit, and its last bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = min(limit, _MAX_KEPT)
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self._size += len(data)
        self._head += data[: max(0, self._limit - len(self._head))]
        self._tail = (self._tail + data)[-_TAIL_BYTES:]

    def text(self) -> str:
        cut = f"… ({self._size} bytes in all)" if self._size > len(self._head) else ""
        return self._head.decode("utf-8", "replace") + cut

    def end(self) -> str:
        return self._tail.decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended; a negative code is the signal that killed it."""

    code: int
    out: CapturedOutput
    err: CapturedOutput

    def check(self, name: str) -> None:
        """Raise CommandFailed unless the exit code is 0."""
        if self.code == 0:
            return
        how = f"ended with exit code {self.code}" if self.code > 0 else f"was killed by {_signal_name(-self.code)}"
        last = "\n".join(part for part in (self.out.end(), self.err.end()) if part)
        raise CommandFailed(f"{name} {how}" + (f"; its last output:\n{last}" if last else ""), self.code)


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """The monotonic time at which a program is killed, and how many bytes of its output are captured."""

    until: float
    from_attempt: bool  # `until` is the deadline of the attempt, not the timeout from the settings
    max_output: int


def program_limits(context: Context, timeout: float, max_output: int) -> ProgramLimits:
    until = time.monotonic() + timeout
    own = context.deadline is not None and context.deadline <= until
    return ProgramLimits(context.deadline if own and context.deadline else until, own, max_output)


def run_program(
    name: str,
    argv: Sequence[str],
    limits: ProgramLimits,
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    umask: int = -1,
) -> ProgramResult:
    """Run a program; its process group is killed at the end, also after an error."""
    import subprocess  # most apps run no programs

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
    out, err = CapturedOutput(limits.max_output), CapturedOutput(limits.max_output)
    pipes = dict(zip(filter(None, (process.stdout, process.stderr)), (out, err), strict=True))
    try:
        _drain(process, pipes, limits.until)
        if not _has_ended(process):
            raise _too_late(name, limits)
    finally:
        _end_group(process)
        for pipe in pipes:
            pipe.close()
    return ProgramResult(process.returncode, out, err)


def _drain(process: "subprocess.Popen[bytes]", streams: dict[IO[bytes], CapturedOutput], until: float) -> None:
    """Read until the program has ended or its time is up; a process that it started may keep the pipes open longer."""
    with selectors.DefaultSelector() as selector:
        for stream, output in streams.items():
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, output)
        while not _has_ended(process) and (left := until - time.monotonic()) > 0:
            if selector.get_map():
                _read(selector, min(left, _POLL_SECONDS))
            else:
                time.sleep(min(left, _POLL_SECONDS / 10))
        if not _has_ended(process):
            return
        _kill_group(process)
        stop = time.monotonic() + _DRAIN_TIMEOUT
        while selector.get_map() and time.monotonic() < stop and _read(selector, _POLL_SECONDS):
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
    """Check without reaping: while the leader is a zombie, no other group can get its number."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # other code in this process has reaped it
        return True


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    _kill_group(process)
    process.wait()


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _too_late(name: str, limits: ProgramLimits) -> BaseException:
    if limits.from_attempt:
        return DeadlineExceeded("the attempt ran past its timeout")
    return CommandFailed(f"{name} was killed because it ran longer than its settings allow", -signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
