"""Connecting to a host at an address that was judged: resolved once, pinned, and under one deadline to the end."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Any

from tenure.builtin.url.address import Address, Network, fault_of
from tenure.builtin.url.target import Target
from tenure.errors import Refused, RequestFailed

if TYPE_CHECKING:
    import ssl

Resolve = Callable[[str, int], Sequence[str]]


class Timer:
    """The one deadline of a request, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise RequestFailed(f"the request took longer than {self._seconds:g} s")
        return left if most is None else min(left, most)


class PinnedStream:
    """A socket as httpcore2 wants it; every read and write ends with the request's deadline.

    At most `allowance` bytes are read; who wants more raises it.
    """

    def __init__(self, sock: socket.socket, timer: Timer, allowance: int) -> None:
        self._socket = sock
        self._timer = timer
        self.allowance = allowance

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.allowance <= 0:
            raise RequestFailed("the answer is larger than the settings allow")
        self._socket.settimeout(self._timer.left(timeout))
        data = self._socket.recv(min(max_bytes, self.allowance))
        self.allowance -= len(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before it heard all
            while view:
                self._socket.settimeout(self._timer.left(timeout))
                view = view[self._socket.send(view) :]

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002 - httpcore2's signature
        return None


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, as the system's resolver tells them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def judged(target: Target, opened: Sequence[Network], find: Resolve, timer: Timer) -> list[Address]:
    """Every address of the target; one bad address refuses them all, as mixed answers are an attack."""
    texts = [str(target.literal)] if target.literal else _within(find, target, timer)
    if not texts:
        raise RequestFailed(f"host {target.host!r} has no address")
    addresses = [_address(text, target.host) for text in texts]
    for address in addresses:
        if fault := fault_of(address, opened):
            raise Refused(
                f"no request may go to host {target.host!r}: its address {address} is closed ({fault}); "
                "the setting 'http.networks' opens private networks"
            )
    return addresses


def connect(target: Target, addresses: Sequence[Address], timer: Timer, patience: float) -> socket.socket:
    """A connection to the first of these addresses that answers."""
    problem: OSError | None = None
    for address in addresses:
        family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(timer.left(patience))
            sock.connect((str(address), target.port))
            if ip_address(sock.getpeername()[0]) != address:
                raise OSError(f"asked for {address} and was given {sock.getpeername()[0]}")
            return sock
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
    raise RequestFailed(f"host {target.host!r} cannot be reached on port {target.port}: {problem}") from problem


def secured(
    sock: socket.socket, target: Target, context: "ssl.SSLContext", timer: Timer, patience: float
) -> socket.socket:
    """The connection under TLS; the certificate must be for the host that the URL names."""
    try:
        sock.settimeout(timer.left(patience))
        return context.wrap_socket(sock, server_hostname=target.host)
    except OSError as error:
        sock.close()
        raise RequestFailed(f"host {target.host!r} offers no trusted TLS connection: {error}") from error
    except BaseException:  # the time is over, or the job is stopped
        sock.close()
        raise


def _address(text: str, host: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise RequestFailed(f"the resolver gave {text!r:.60} as an address of host {host!r}") from None
    if getattr(address, "scope_id", None):
        raise Refused(f"no request may go to host {host!r}: its address {text!r:.60} is for one link only")
    return address


def _within(find: Resolve, target: Target, timer: Timer) -> Sequence[str]:
    """The resolver cannot be given a deadline: it runs beside us, and is left to itself when it is too slow."""
    found: list[Sequence[str]] = []
    problems: list[Exception] = []

    def look() -> None:
        try:
            found.append(find(target.host, target.port))
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=look, name="tenure-resolver", daemon=True)
    thread.start()
    thread.join(timer.left())
    if found:
        return found[0]
    cause = problems[0] if problems else "the resolver did not answer in time"
    raise RequestFailed(f"host {target.host!r} cannot be resolved: {cause}")
