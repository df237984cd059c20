"""The probe file: a process writes its state there, and `tenure health --probe` in the same container reads it.

The times in it are of the monotonic clock of this machine, so that a change of the date makes no process look dead.
"""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from tenure.errors import SettingsError
from tenure.supervisor.sd_notify import SystemdNotifier
from tenure.trusted_files import replace_file

logger = logging.getLogger(__name__)

Level = Literal["live", "ready"]
PROGRESS_SECONDS = 30.0  # loops that have not moved for this long are reported no more, as to systemd
MAX_AGE = 60.0  # two reports may be missing before a process counts as dead: its machine may be busy
_WARNING_INTERVAL = 60.0
_PROGRESS = {"READY", "WATCHDOG", "STOPPING", "RELOADING", "EXTEND_TIMEOUT_USEC"}
_STATES: Mapping[str, Literal["starting", "ready", "stopping"]] = {
    "RELOADING": "starting",
    "READY": "ready",
    "STOPPING": "stopping",
}


class ProcessState(Struct, frozen=True, forbid_unknown_fields=True):
    """What the file contains: the state, a line about it, and when the process last made progress."""

    state: Literal["starting", "ready", "stopping"]
    progress_at: float
    text: str = ""


_decode = msgspec.json.Decoder(ProcessState).decode


class StateReporter(Protocol):
    """Takes reports in the words of systemd; `watchdog` is the time within which WATCHDOG=1 is expected."""

    @property
    def watchdog(self) -> float | None: ...

    def __bool__(self) -> bool: ...

    def notify(self, **fields: object) -> None: ...


class StateNotifier:
    """Reports to systemd and to the probe file, each if it is there."""

    def __init__(self, environment: Mapping[str, str], probe_file: str | None) -> None:
        """Raises SettingsError if the probe file cannot be written."""
        self._systemd = SystemdNotifier(environment)
        self._file = ProbeFile(Path(probe_file)) if probe_file else None
        limits = [limit for limit in (self._systemd.watchdog, PROGRESS_SECONDS if self._file else None) if limit]
        self.watchdog = min(limits, default=None)

    def __bool__(self) -> bool:
        return bool(self._systemd) or self._file is not None

    def notify(self, **fields: object) -> None:
        """Safe in a signal handler, as that of systemd."""
        self._systemd.notify(**fields)
        if self._file is not None:
            self._file.notify(**fields)

    def report_progress(self) -> None:
        """The process is not ready yet and does not hang; systemd has a limit of its own for a start."""
        if self._file is not None:
            self._file.notify(WATCHDOG=1)


class ProbeFile:
    """The writing end; a write that fails is logged, and the probe fails while it lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()  # a signal handler may report while its own thread does
        self._state = ProcessState("starting", time.monotonic())
        self._warn_again_at = 0.0
        try:
            self._write()
        except OSError as error:
            raise SettingsError(
                f"the probe file {str(path)!r} cannot be written: {error.strerror}; name a file in a folder that this "
                "process can write to, such as /tmp/tenure-probe"
            ) from error

    def notify(self, **fields: object) -> None:
        with self._lock:
            self._notify(fields)

    def _notify(self, fields: Mapping[str, object]) -> None:
        before = self._state
        states = [_STATES[name] for name in fields if name in _STATES]
        self._state = ProcessState(
            state=states[-1] if states else before.state,
            progress_at=time.monotonic() if _PROGRESS & fields.keys() else before.progress_at,
            text=str(fields.get("STATUS", before.text)),
        )
        try:
            self._write()
        except OSError as error:
            if time.monotonic() >= self._warn_again_at:
                self._warn_again_at = time.monotonic() + _WARNING_INTERVAL
                logger.warning("the probe file %r cannot be written: %s", str(self._path), error.strerror)

    def _write(self) -> None:
        replace_file(self._path, msgspec.json.encode(self._state), 0o600)


def find_fault(path: Path, level: Level, now: float) -> str | None:
    """Why the process that writes this file is not alive, or not ready; None if it is. `now` is monotonic time."""
    try:
        found = _decode(path.read_bytes())
    except FileNotFoundError:
        return f"there is no file {str(path)!r}: no worker or scheduler has started with this setting"
    except (OSError, msgspec.MsgspecError) as error:
        return f"the file {str(path)!r} cannot be read: {error}"
    age = now - found.progress_at
    if not 0 <= age <= MAX_AGE:  # a time after now is from before the machine was started again
        return f"the process has made no progress for {abs(age):.0f} s (last state: {_described(found)})"
    if level == "ready" and found.state != "ready":
        return f"the process is not ready: {_described(found)}"
    return None


def _described(found: ProcessState) -> str:
    return f"{found.state}, {found.text}" if found.text else found.state
