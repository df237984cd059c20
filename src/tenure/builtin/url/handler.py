"""Sending the request of a `url` job: no redirects, no proxies, no compression, certificates always checked."""

import socket
import time
from functools import cached_property
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tenure.builtin.shape import CheckedShape
from tenure.builtin.url.connection import PinnedStream, Resolve, Timer, connect, judged, resolve, secured
from tenure.builtin.url.target import Target, authorise, parse
from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.errors import Refused, RequestFailed, Retry
from tenure.permissions import Http

if TYPE_CHECKING:
    import ssl

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FRAMING = 65_536  # what chunk sizes and trailers may add to a body
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "user-agent"})


class Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The payload of a url job; `json` is sent as JSON, `body` as it is."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None
    json: Any | UnsetType = UNSET


class Response(Struct, frozen=True):
    """What came back, as far as it was read."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_cut: bool

    def text(self) -> str:
        return self.body.decode("utf-8", "replace") + ("… (cut)" if self.is_cut else "")


class Sender:
    """Sends requests that the settings permit; `find` is how names are resolved."""

    def __init__(self, permitted: Http, find: Resolve = resolve) -> None:
        self._permitted = permitted
        self._opened = [ip_network(network) for network in permitted.networks]
        self._headers = frozenset(name.lower() for name in permitted.headers) - _OURS
        self._find = find

    def authorise(self, request: Request) -> tuple[Target, list[tuple[str, str]], bytes]:
        """What will be sent, if the settings permit it."""
        target = parse(request.url)
        authorise(self._permitted, target, request.method.upper())
        headers, body = self._composed(request)
        return target, [("Host", target.authority), *headers], body

    def perform(self, context: Context, request: Request) -> str:
        """The body of the answer; a bad status fails, and its Retry-After is obeyed."""
        target, headers, body = self.authorise(request)
        seconds = self._permitted.timeout
        timer = Timer(seconds if context.time_left is None else min(seconds, max(0.001, context.time_left)))
        response = self._send(target, request.method.upper(), headers, body, timer)
        self._judge(target, response)
        return response.text()

    def _send(self, target: Target, method: str, headers: list[tuple[str, str]], body: bytes, timer: Timer) -> Response:
        try:
            import httpcore2
        except ImportError as error:
            raise RequestFailed("url jobs need httpcore2; install it with: pip install 'tenure[http]'") from error

        url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        stream = PinnedStream(self._connected(target, timer), timer, self._permitted.max_head)
        connection = httpcore2.HTTP11Connection(url.origin, stream)  # type: ignore[arg-type]
        try:
            answer = connection.handle_request(httpcore2.Request(method, url, headers=headers, content=body))
            stream.allowance = self._permitted.max_body + _FRAMING
            return self._received(answer)
        except TimeoutError as error:
            raise RequestFailed(f"host {target.host!r} did not answer in time") from error
        except (httpcore2.ProtocolError, OSError) as error:
            raise RequestFailed(f"the exchange with host {target.host!r} failed: {error}") from error
        finally:
            connection.close()

    def _connected(self, target: Target, timer: Timer) -> socket.socket:
        patience = self._permitted.connect_timeout
        addresses = judged(target, self._opened, self._find, timer)
        tls = self._tls if target.scheme == "https" else None  # loading it takes a while, and nobody should wait for us
        sock = connect(target, addresses, timer, patience)
        return sock if tls is None else secured(sock, target, tls, timer, patience)

    @cached_property
    def _tls(self) -> "ssl.SSLContext":
        import ssl  # with email.utils, 12 ms that only senders of requests wait for

        context = ssl.create_default_context()
        if self._permitted.certificates:
            context.load_verify_locations(self._permitted.certificates)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _composed(self, request: Request) -> tuple[list[tuple[str, str]], bytes]:
        headers = {name.lower(): value for name, value in request.headers.items()}
        for name, value in headers.items():
            if name not in self._headers:
                raise Refused(f"header {name!r:.60} is not allowed; the setting 'http.headers' names those that are")
            if not _TOKEN.issuperset(name) or not all(" " <= each <= "~" or each == "\t" for each in value):
                raise Refused(f"header {name!r:.60} holds characters that a header may not", reason="invalid_payload")
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

    def _received(self, answer: Any) -> Response:
        """Read the body up to its limit, as it came: a small compressed one could be a very large one."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestFailed("the answer is compressed although that was not asked for", answer.status)
        body = bytearray()
        for chunk in answer.stream:
            body += chunk
            if len(body) > self._permitted.max_body:
                return Response(answer.status, headers, bytes(body[: self._permitted.max_body]), True)
        return Response(answer.status, headers, bytes(body), False)

    def _judge(self, target: Target, response: Response) -> None:
        status = response.status
        where = f"host {target.host!r} answered with status {status}"
        if status in _REDIRECTS:
            raise RequestFailed(f"{where}, a redirect, and those are never followed; name the new URL", status)
        if status < self._permitted.failing_status:
            return
        story = f"{where}: {response.text()[:500]}" if response.body else where
        delay = retry_after(response.headers.get("retry-after", ""), time.time())
        if delay is not None:
            raise Retry(story, delay=min(delay, self._permitted.max_retry_after))
        raise RequestFailed(story, status)


def url_handler(permitted: Http, find: Resolve = resolve) -> Handler:
    """Payload: `{"url": …, "method": …, "headers": …, "body" or "json": …}`; result: the body of the answer."""
    sender = Sender(permitted, find)
    shape = CheckedShape(Request, sender.authorise, rebuild=lambda payload: msgspec.convert(payload, Request))
    return Handler(key="url", shape=shape, call=sender.perform, is_async=False)


def retry_after(value: str, now: float) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or a date."""
    import email.utils

    value = value.strip()
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
