"""WriteLock: gives the one write slot of a SQLite file to processes in turn.

SQLite's own waiting sleeps and retries, so a busy process can starve another for seconds.
Here a process first takes the gate, then waits for the slot holding the gate:
whoever just left the slot must queue behind it. The kernel frees both when a process dies.
"""

import fcntl
import os
import time
from pathlib import Path

from tenure.errors import BackendUnavailable

_POLL = 0.0003  # a write transaction takes 0.3 to 5 ms


class WriteLock:
    """Held by one thread at a time; the caller serialises the threads of its process."""

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._gate = self._open("gate")
        self._slot = self._open("slot")

    def acquire(self) -> None:
        give_up = time.monotonic() + self._patience
        self._take(self._gate, give_up)
        try:
            self._take(self._slot, give_up)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def release(self) -> None:
        fcntl.flock(self._slot, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._slot)

    def _take(self, descriptor: int, give_up: float) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise BackendUnavailable(
                        f"another process has been writing to {str(self._path)!r} for {self._patience:g} s; "
                        "find it with fuser or lsof: it may be stopped or stuck"
                    ) from None
                time.sleep(_POLL)
            else:
                return

    def _open(self, role: str) -> int:
        return os.open(f"{self._path}-{role}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
