"""Notices: what a process tells whoever supervises it, in the words of systemd's sd_notify protocol.

A notice is a datagram of lines such as READY=1; one that cannot be delivered is lost, and stops nothing.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_LARGEST = 1 << 16


class Notifier:
    """Tells the socket that the environment names; false, and silent, when it names none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address  # abstract: not in the file system
        microseconds = environment.get("WATCHDOG_USEC", "")
        meant = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog = int(microseconds) / 1e6 if self._address and meant and microseconds.isdigit() else None

    def __bool__(self) -> bool:
        return bool(self._address)

    def tell(self, **words: object) -> None:
        """`tell(READY=1, STATUS="at work")`; quick, and safe in a signal handler."""
        lines = "\n".join(f"{word}={' '.join(str(value).split())}" for word, value in words.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.setblocking(False)
            if self._address:
                sender.sendto(lines.encode("utf-8", "replace"), self._address)


class Notices:
    """The other end: a socket at a path of one's own, `address` in the environment of whoever is to tell."""

    def __init__(self, path: Path) -> None:
        self.address = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def heard(self) -> list[dict[str, str]]:
        """Every notice since the last time, in order."""
        notices = []
        with suppress(BlockingIOError):
            while True:
                lines = self._socket.recv(_LARGEST).decode("utf-8", "replace").splitlines()
                notices.append(dict(line.split("=", 1) for line in lines if "=" in line))
        return notices

    def close(self) -> None:
        self._socket.close()
        Path(self.address).unlink(missing_ok=True)
