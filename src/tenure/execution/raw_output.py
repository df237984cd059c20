"""RawOutput: catches what a job writes to its standard output without `sys.stdout`: by `os.write`, or in a program.

It is a file in memory that takes the place of descriptor 1 in the child of the runner `process`. Only that child runs
one job at a time, so only there it is known which job wrote what. The child reads the file after each job. The parent
discards the end of what a job writes without limit: a pipe would stop such a job while the child does not read.
All processes append, so the position in the file is free: `lseek` finds the size in a third of the time of `fstat`.
"""

import codecs
import ctypes
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_STDOUT = 1
_FIRST_COPY = 100  # the copy of the real standard output gets a number from here on
_KEPT_BYTES = 4 * 64 * 1024  # a record has 64 Ki characters
_TRIM_ABOVE = 16 * _KEPT_BYTES
_PUNCH_HOLE_AND_KEEP_SIZE = 0x03
_new_decoder = codecs.getincrementaldecoder("utf-8")


class RawOutput:
    """The same file in parent and child. Each method says which of the two calls it."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _create() if descriptor is None else descriptor
        self._discarded = _KEPT_BYTES
        self._read_up_to = 0
        self._decoder = _new_decoder("replace")
        self._console = -1

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Child: meanwhile the file is the standard output of this process and of the programs that it starts."""
        _flush()
        self._console = fcntl.fcntl(_STDOUT, fcntl.F_DUPFD_CLOEXEC, _FIRST_COPY)
        os.dup2(self.descriptor, _STDOUT)
        try:
            yield
        finally:
            self.pass_on()
            os.dup2(self._console, _STDOUT)
            os.close(self._console)

    def pass_on(self) -> None:
        """Child: pass on to the real standard output what was written while no job ran."""
        _flush()
        if size := os.lseek(self.descriptor, 0, os.SEEK_END):
            left = memoryview(os.pread(self.descriptor, min(size, _KEPT_BYTES), 0))
            self._empty()
            with suppress(OSError):  # the standard output of the worker is closed
                while left:
                    left = left[os.write(self._console, left) :]

    def read(self) -> tuple[str, int]:
        """Child: what was written since the last read, and how many bytes of it are not in the text."""
        size = os.lseek(self.descriptor, 0, os.SEEK_END)
        begun, self._read_up_to = self._read_up_to, size
        if size <= begun:  # nothing new, or a program opened the file again, which empties it
            return "", 0
        data = os.pread(self.descriptor, max(0, min(size, _KEPT_BYTES) - begun), begun)
        return self._decoder.decode(data), size - begun - len(data)

    def is_empty(self) -> bool:
        """Child: whether the job has written nothing; the usual case, in which `end` would take twice as long."""
        _flush()
        return not (self._read_up_to or os.lseek(self.descriptor, 0, os.SEEK_END))

    def end(self) -> tuple[str, int]:
        """Child: the rest of what the job wrote."""
        _flush()
        text, dropped = self.read()
        if self._read_up_to:
            text += self._decoder.decode(b"", True)
            self._empty()
        return text, dropped

    def trim(self) -> None:
        """Parent: free the memory of what is too long to be kept; the size of the file still tells its length."""
        size = os.lseek(self.descriptor, 0, os.SEEK_END)
        self._discarded = min(self._discarded, max(size, _KEPT_BYTES))
        if size - self._discarded < _TRIM_ABOVE:
            return
        if not _punch_hole(self.descriptor, self._discarded, size - self._discarded):
            os.ftruncate(self.descriptor, _KEPT_BYTES)
            return
        self._discarded = size

    def close(self) -> None:
        """Parent: the child has ended."""
        os.close(self.descriptor)

    def _empty(self) -> None:
        os.ftruncate(self.descriptor, 0)
        self._read_up_to = 0
        self._decoder.reset()


def _create() -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tenure-raw-output")
    else:
        with tempfile.TemporaryFile() as file:  # it has no name, and exists as long as a process has it open
            descriptor = os.dup(file.fileno())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_APPEND)  # several programs may write to it
    return descriptor


def _flush() -> None:
    """Write out what the stream of descriptor 1 has buffered; a job may have closed it."""
    try:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
    except (ValueError, OSError):  # it is closed, or the disk behind it is full
        return


def _punch_hole(descriptor: int, start: int, length: int) -> bool:
    fallocate = getattr(ctypes.CDLL(None), "fallocate", None)  # Linux alone has it
    if fallocate is None:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(fallocate(descriptor, _PUNCH_HOLE_AND_KEEP_SIZE, start, length) == 0)
