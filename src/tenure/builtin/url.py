"""The `url` handler: one HTTP request to an allowed host, at an address that was checked.

The host is resolved once and the request goes to that address, under one deadline for the whole exchange. There are no
redirects, no proxies and no compression, and certificates are always checked.
"""

import codecs
import importlib.util
import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from ipaddress import IPv4Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tenure.builtin.authorisation import CheckedShape
from tenure.builtin.url_destination import (
    Address,
    Destination,
    Resolve,
    allowed_addresses,
    authorise_request,
    parse_url,
    resolve,
)
from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.definition.payload import Shape
from tenure.definition.retry import retry_after
from tenure.errors import Refused, RequestFailed, Retry
from tenure.permissions import Http

if TYPE_CHECKING:
    import ssl

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FRAMING_BYTES = 65_536  # what chunk sizes and trailers may add to a body
_HEADER_NAME_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_CHARSETS = ("ascii", "utf", "iso", "cp", "koi8", "gb", "big5", "euc", "shift_jis", "mac")  # other codecs can be slow
MISSING_EXTRA = "url jobs need httpcore2, which is not installed here; install it with: pip install 'tenure[http]'"
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "user-agent"})


class Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The payload of a url job; `json` is sent as JSON, `body` as it is."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None
    json: Any | UnsetType = UNSET


class Response(Struct, frozen=True):
    """The response, with its body up to the limit."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_cut: bool

    def text(self) -> str:
        charset = charset_of(self.headers.get("content-type", ""))
        return self.body.decode(charset, "replace") + ("… (cut)" if self.is_cut else "")


class Sender:
    """Sends requests that the settings permit; `find` resolves names."""

    def __init__(self, permitted: Http, find: Resolve = resolve) -> None:
        self._permitted = permitted
        self._opened = [ip_network(network) for network in permitted.networks]
        self._headers = frozenset(name.lower() for name in permitted.headers) - _OWN_HEADERS
        self._find = find

    def authorise(self, request: Request) -> tuple[Destination, list[tuple[str, str]], bytes]:
        """The destination, headers and body of a request; raises Refused if the settings do not permit it."""
        destination = parse_url(request.url)
        authorise_request(self._permitted, destination, request.method.upper())
        headers, body = self._compose(request)
        return destination, [("Host", destination.authority), *headers], body

    def perform(self, context: Context, request: Request) -> str:
        """The body of the response; a failing status raises, with the delay of its Retry-After header."""
        destination, headers, body = self.authorise(request)
        seconds = self._permitted.timeout
        timer = RequestTimer(seconds if context.time_left is None else min(seconds, max(0.001, context.time_left)))
        response = self._send(destination, request.method.upper(), headers, body, timer)
        self._check_status(destination, response)
        return response.text()

    def _send(
        self, destination: Destination, method: str, headers: list[tuple[str, str]], body: bytes, timer: "RequestTimer"
    ) -> Response:
        import httpcore2  # imported on use: only url jobs need it

        url = httpcore2.URL(
            scheme=destination.scheme, host=destination.host, port=destination.port, target=destination.path
        )
        stream = PinnedStream(self._connect(destination, timer), timer, self._permitted.max_head)
        connection = httpcore2.HTTP11Connection(url.origin, stream)  # type: ignore[arg-type]
        try:
            answer = connection.handle_request(httpcore2.Request(method, url, headers=headers, content=body))
            stream.allowance = self._permitted.max_body + _FRAMING_BYTES
            return self._read_response(answer)
        except TimeoutError as error:
            raise RequestFailed(f"host {destination.host!r} did not answer in time") from error
        except (httpcore2.ProtocolError, OSError) as error:
            raise RequestFailed(f"the exchange with host {destination.host!r} failed: {error}") from error
        finally:
            connection.close()

    def _connect(self, destination: Destination, timer: "RequestTimer") -> socket.socket:
        timeout = self._permitted.connect_timeout
        addresses = allowed_addresses(destination, self._opened, self._find, timer.left())
        tls = self._tls if destination.scheme == "https" else None  # loaded first: it is slow, and the host would wait
        sock = connect(destination, addresses, timer, timeout)
        return sock if tls is None else start_tls(sock, destination, tls, timer, timeout)

    @cached_property
    def _tls(self) -> "ssl.SSLContext":
        import ssl  # imported on use: with email.utils it takes 12 ms

        context = ssl.create_default_context()
        if self._permitted.certificates:
            context.load_verify_locations(self._permitted.certificates)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _compose(self, request: Request) -> tuple[list[tuple[str, str]], bytes]:
        headers = {name.lower(): value for name, value in request.headers.items()}
        for name, value in headers.items():
            if name not in self._headers:
                raise Refused(f"header {name!r:.60} is not allowed; the setting 'http.headers' names those that are")
            if not _is_valid_header(name, value):
                raise Refused(f"header {name!r:.60} contains invalid characters", reason="invalid_payload")
        body = (request.body or "").encode()
        if request.json is not UNSET:
            if request.body is not None:
                raise Refused("a request takes either body or json, not both", reason="invalid_payload")
            body = msgspec.json.encode(request.json)
            headers.setdefault("content-type", "application/json")
        has_length = body or request.method.upper() in ("POST", "PUT", "PATCH")
        sized = [("Content-Length", str(len(body)))] if has_length else []
        fixed = [("User-Agent", "tenure"), ("Accept-Encoding", "identity"), ("Connection", "close")]
        return [*fixed, *sized, *headers.items()], body

    def _read_response(self, answer: Any) -> Response:
        """Read the body up to its limit; a compressed one is refused, as it could be very large when unpacked."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestFailed("the response is compressed although the request did not allow it", answer.status)
        body = bytearray()
        for chunk in answer.stream:
            body += chunk
            if len(body) > self._permitted.max_body:
                return Response(answer.status, headers, bytes(body[: self._permitted.max_body]), True)
        return Response(answer.status, headers, bytes(body), False)

    def _check_status(self, destination: Destination, response: Response) -> None:
        status = response.status
        where = f"host {destination.host!r} answered with status {status}"
        if status in _REDIRECTS:
            raise RequestFailed(f"{where}, a redirect, which is never followed; use the new URL", status)
        if status < self._permitted.failing_status:
            return
        message = f"{where}: {response.text()[:500]}" if response.body else where
        delay = retry_after(response.headers.get("retry-after", ""), time.time())
        if delay is not None:
            raise Retry(message, delay=min(delay, self._permitted.max_retry_after))
        raise RequestFailed(message, status)


def url_handler(permitted: Http, find: Resolve = resolve) -> Handler:
    """Payload: `{"url": …, "method": …, "headers": …, "body" or "json": …}`; result: the body of the response."""
    sender = Sender(permitted, find)
    shape = Shape(Request, rebuild=lambda payload: msgspec.convert(payload, Request))
    checked = CheckedShape(shape, sender.authorise)
    return Handler(key="url", shape=checked, call=sender.perform, is_async=False)


def has_extra() -> bool:
    """Whether the library that sends requests is installed."""
    return importlib.util.find_spec("httpcore2") is not None


def _is_valid_header(name: str, value: str) -> bool:
    return _HEADER_NAME_CHARACTERS.issuperset(name) and all(" " <= each <= "~" or each == "\t" for each in value)


def charset_of(content_type: str) -> str:
    """The character set of a body by its Content-Type header; UTF-8 if it names none that is known."""
    named = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.IGNORECASE)
    try:
        name = codecs.lookup(named[1]).name if named else ""
    except LookupError:
        return "utf-8"
    return name if name.startswith(_CHARSETS) else "utf-8"


class RequestTimer:
    """The deadline of one request, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise RequestFailed(f"the request took longer than {self._seconds:g} s")
        return left if most is None else min(left, most)


class PinnedStream:
    """A socket with the interface that httpcore2 needs; no read or write lasts past the request's deadline.

    It reads at most `allowance` bytes; the caller may raise that.
    """

    def __init__(self, sock: socket.socket, timer: RequestTimer, allowance: int) -> None:
        self._socket = sock
        self._timer = timer
        self.allowance = allowance

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.allowance <= 0:
            raise RequestFailed("the response is larger than the settings allow")
        self._socket.settimeout(self._timer.left(timeout))
        data = self._socket.recv(min(max_bytes, self.allowance))
        self.allowance -= len(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        with suppress(BrokenPipeError, ConnectionResetError):  # the host may respond before it has read all
            while view:
                self._socket.settimeout(self._timer.left(timeout))
                view = view[self._socket.send(view) :]

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002 - httpcore2's signature
        return None


def connect(
    destination: Destination, addresses: Sequence[Address], timer: RequestTimer, timeout: float
) -> socket.socket:
    """A connection to the first of these addresses that accepts one."""
    problem: OSError | None = None
    for address in addresses:
        family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(timer.left(timeout))
            sock.connect((str(address), destination.port))
            if ip_address(sock.getpeername()[0]) != address:
                raise OSError(f"asked for {address} and got {sock.getpeername()[0]}")
            return sock
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
    raise RequestFailed(
        f"host {destination.host!r} cannot be reached on port {destination.port}: {problem}"
    ) from problem


def start_tls(
    sock: socket.socket, destination: Destination, context: "ssl.SSLContext", timer: RequestTimer, timeout: float
) -> socket.socket:
    """The connection under TLS; the certificate must be for the host that the URL names."""
    try:
        sock.settimeout(timer.left(timeout))
        return context.wrap_socket(sock, server_hostname=destination.host)
    except OSError as error:
        sock.close()
        raise RequestFailed(f"host {destination.host!r} offers no trusted TLS connection: {error}") from error
    except BaseException:  # the time is up, or the job is stopped
        sock.close()
        raise
