"""systemd's sd_notify protocol: how a process reports its state to its supervisor, and how a supervisor receives it.

A notification is a datagram with lines such as READY=1. One that cannot be delivered is lost; the process continues.
"""

import os
import secrets
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from tempfile import TemporaryDirectory

_MAX_DATAGRAM = 1 << 16
_CREDENTIALS = struct.Struct("3i")  # process, user and group of the sender, as Linux adds them


class SystemdNotifier:
    """Sends to the socket that the environment names; false, and does nothing, when it names none.

    `watchdog` is the interval in seconds in which the supervisor expects WATCHDOG=1, or None.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _socket_address(environment.get("NOTIFY_SOCKET", ""))
        microseconds = environment.get("WATCHDOG_USEC", "")
        is_for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog = int(microseconds) / 1e6 if self._address and is_for_us and microseconds.isdigit() else None

    def __bool__(self) -> bool:
        return bool(self._address)

    def notify(self, **fields: object) -> None:
        """`notify(READY=1, STATUS="at work")`; quick, and safe in a signal handler."""
        if not self._address:
            return
        lines = "\n".join(f"{name}={' '.join(str(value).split())}" for name, value in fields.items())
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(lines.encode("utf-8", "replace"), self._address)


class NotifySocket:
    """The receiving end: a socket of this process; the senders get its `address` in their environment."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._folder: TemporaryDirectory[str] | None = None
        if sys.platform == "linux":  # an abstract socket leaves no file behind, even when this process is killed
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.address = f"@tenure-{secrets.token_hex(16)}"
        else:
            self._folder = TemporaryDirectory(prefix="tenure-")
            self.address = f"{self._folder.name}/notices"
        self._socket.bind(_socket_address(self.address))
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[dict[str, str]]:
        """Every notification since the last call, in order; those of other users are ignored."""
        received = []
        with suppress(BlockingIOError):
            while True:
                data, credentials, _, _ = self._socket.recvmsg(_MAX_DATAGRAM, socket.CMSG_SPACE(_CREDENTIALS.size))
                if all(_CREDENTIALS.unpack(each)[1] == os.getuid() for _, _, each in credentials):
                    lines = data.decode("utf-8", "replace").splitlines()
                    received.append(dict(line.split("=", 1) for line in lines if "=" in line))
        return received

    def close(self) -> None:
        self._socket.close()
        if self._folder:
            self._folder.cleanup()


def _socket_address(address: str) -> str:
    """An address that begins with @ is abstract: it is not in the file system, so that every user may write to it."""
    return f"\0{address[1:]}" if address.startswith("@") else address
