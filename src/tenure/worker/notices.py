"""Notices: what a process tells whoever supervises it, in the words of systemd's sd_notify protocol.

A notice is a datagram of lines such as READY=1; one that cannot be delivered is lost, and stops nothing.
"""

import os
import secrets
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from tempfile import TemporaryDirectory

_LARGEST = 1 << 16
_CREDENTIALS = struct.Struct("3i")  # process, user and group of the sender, as Linux tells them


class Notifier:
    """Tells the socket that the environment names; false, and silent, when it names none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _place(environment.get("NOTIFY_SOCKET", ""))
        microseconds = environment.get("WATCHDOG_USEC", "")
        meant = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog = int(microseconds) / 1e6 if self._address and meant and microseconds.isdigit() else None

    def __bool__(self) -> bool:
        return bool(self._address)

    def tell(self, **words: object) -> None:
        """`tell(READY=1, STATUS="at work")`; quick, and safe in a signal handler."""
        if not self._address:
            return
        lines = "\n".join(f"{word}={' '.join(str(value).split())}" for word, value in words.items())
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(lines.encode("utf-8", "replace"), self._address)


class Notices:
    """The other end: a socket of one's own, with its `address` for the environment of whoever is to tell."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._folder: TemporaryDirectory[str] | None = None
        if sys.platform == "linux":  # an abstract socket leaves nothing behind, even when we are killed
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.address = f"@tenure-{secrets.token_hex(16)}"
        else:
            self._folder = TemporaryDirectory(prefix="tenure-")
            self.address = f"{self._folder.name}/notices"
        self._socket.bind(_place(self.address))
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def heard(self) -> list[dict[str, str]]:
        """Every notice since the last time, in order."""
        notices = []
        with suppress(BlockingIOError):
            while True:
                data, credentials, _, _ = self._socket.recvmsg(_LARGEST, socket.CMSG_SPACE(_CREDENTIALS.size))
                if all(_CREDENTIALS.unpack(each)[1] == os.getuid() for _, _, each in credentials):
                    lines = data.decode("utf-8", "replace").splitlines()
                    notices.append(dict(line.split("=", 1) for line in lines if "=" in line))
        return notices

    def close(self) -> None:
        self._socket.close()
        if self._folder:
            self._folder.cleanup()


def _place(address: str) -> str:
    """An address that begins with @ is abstract: it is not in the file system, and so anybody may write to it."""
    return f"\0{address[1:]}" if address.startswith("@") else address
