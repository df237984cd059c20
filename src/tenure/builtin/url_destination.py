"""Where a `url` job may send its request: a URL read strictly, the settings' rules, and closed addresses.

A URL that two programs could read differently is refused. Addresses are judged by the tables at the end of this file:
`ipaddress.is_global` is not enough, as its answers differ between releases of Python, and it calls NAT64,
IPv4-compatible and multicast addresses global. An address that contains an IPv4 address is judged by that one as well.
"""

import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from tenure.errors import Refused, RequestFailed
from tenure.permissions import Http

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Sequence[str]]

MAX_URL_LENGTH = 2048
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9._-]{1,254}))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:[/?][!-\"$-\[\]-~]*)?)"  # printable ASCII without # and backslash
)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Destination:
    """The parts of a URL; `host` is the name for certificate and Host header, `literal` its address if it is one."""

    scheme: str
    host: str
    port: int
    path: str
    literal: Address | None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if isinstance(self.literal, IPv6Address) else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(url: str) -> Destination:
    """The parts of a URL; error messages never show its path or query, which may hold secrets."""
    if len(url) > MAX_URL_LENGTH:
        raise _unusable(f"it has {len(url)} characters, more than {MAX_URL_LENGTH}")
    found = _URL.fullmatch(url)
    if found is None:
        raise _unusable(
            "it must be scheme://host[:port][/path][?query] in plain ASCII, without user, fragment, spaces, "
            "backslashes or control characters; write an international host in its xn-- form"
        )
    scheme = found["scheme"].lower()
    if scheme not in _PORTS:
        raise _unusable(f"its scheme is {scheme!r:.40}; http and https are known")
    host, literal = _literal_v6(found["v6"]) if found["v6"] else _host(found["host"])
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    if not 0 < port < 65_536:
        raise _unusable(f"there is no port {port}")
    path = found["target"]
    return Destination(scheme, host, port, path if path.startswith("/") else f"/{path}", literal)


def authorise_request(permitted: Http, destination: Destination, method: str) -> None:
    """Raise Refused unless the settings allow this request; its addresses are checked when it is sent."""
    if not permitted.allow:
        raise Refused(
            f"no request may go to {destination.host!r}: no host is allowed; name those that are in the setting "
            "'http.allow', such as allow = [\"api.example.com\"] in the table [tool.tenure.http]"
        )
    if not any(_matches(entry, destination) for entry in permitted.allow):
        raise Refused(f"no request may go to {destination.host!r}: the setting 'http.allow' does not name it")
    if destination.scheme not in permitted.schemes:
        raise Refused(f"scheme {destination.scheme!r} is not allowed; the setting 'http.schemes' names those that are")
    if method not in permitted.methods:
        raise Refused(f"method {method!r:.40} is not allowed; the setting 'http.methods' names those that are")
    if destination.port not in permitted.ports:
        raise Refused(f"port {destination.port} is not allowed; the setting 'http.ports' names those that are")


def _matches(entry: str, destination: Destination) -> bool:
    host = f"[{destination.host}]" if isinstance(destination.literal, IPv6Address) else destination.host
    return entry in ("*", host) or (entry.startswith(".") and destination.literal is None and host.endswith(entry))


def _host(text: str) -> tuple[str, Address | None]:
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise _unusable(f"{text!r:.80} is not the name of a host")
    if not _NUMERIC.fullmatch(labels[-1]):
        return host, None
    try:  # resolvers read 127.1, 0x7f000001 and 0177.0.0.1 as addresses; only the plain form is accepted
        address = IPv4Address(host)
    except AddressValueError:
        raise _unusable(f"{text!r:.80} is an address in an unusual form; write it as 192.0.2.1") from None
    return str(address), address


def _literal_v6(text: str) -> tuple[str, Address]:
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise _unusable(str(error)) from None
    return str(address), address


def _unusable(why: str) -> Refused:
    return Refused(f"the URL cannot be used: {why}", reason="invalid_payload")


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, from the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def allowed_addresses(
    destination: Destination, opened: Sequence[Network], find: Resolve, seconds: float
) -> list[Address]:
    """Every address of the destination; one closed address refuses them all, as mixed answers are an attack."""
    texts = [str(destination.literal)] if destination.literal else _resolve_within(find, destination, seconds)
    if not texts:
        raise RequestFailed(f"host {destination.host!r} has no address")
    addresses = [_address(text, destination.host) for text in texts]
    for address in addresses:
        if reason := reason_closed(address, opened):
            raise Refused(
                f"no request may go to host {destination.host!r}: its address {address} is closed ({reason}); "
                "the setting 'http.networks' opens private networks"
            )
    return addresses


def _address(text: str, host: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise RequestFailed(f"the resolver gave {text!r:.60} as an address of host {host!r}") from None
    if getattr(address, "scope_id", None):
        raise Refused(f"no request may go to host {host!r}: its address {text!r:.60} is link-local")
    return address


def _resolve_within(find: Resolve, destination: Destination, seconds: float) -> Sequence[str]:
    """Resolve in a thread, as the resolver takes no timeout; a resolver that is too slow is left running."""
    found: list[Sequence[str]] = []
    problems: list[Exception] = []

    def look_up() -> None:
        try:
            found.append(find(destination.host, destination.port))
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=look_up, name="tenure-resolver", daemon=True)
    thread.start()
    thread.join(seconds)
    if found:
        return found[0]
    cause = problems[0] if problems else "the resolver did not answer in time"
    raise RequestFailed(f"host {destination.host!r} cannot be resolved: {cause}")


_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds
        "169.254.170.2",  # credentials of AWS ECS tasks
        "169.254.170.23",  # and of EKS pods
        "169.254.169.249",
        "169.254.169.123",
        "169.254.0.23",  # Tencent
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure
        "192.0.0.192",  # Oracle
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
    )
)
_CLOSED_V4 = {
    IPv4Network(network): what
    for network, what in {
        "0.0.0.0/8": "this host",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared by carriers",
        "127.0.0.0/8": "loopback",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "for protocols",
        "192.0.2.0/24": "for examples",
        "192.88.99.0/24": "a 6to4 relay",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "for benchmarks",
        "198.51.100.0/24": "for examples",
        "203.0.113.0/24": "for examples",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
}
_CLOSED_V6 = {
    IPv6Network(network): what
    for network, what in {
        "2001::/23": "for protocols",
        "2001:db8::/32": "for examples",
        "2002::/16": "6to4",
        "3ffe::/16": "a retired test network",
        "3fff::/20": "for examples",
    }.items()
}
_UNICAST_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_LOW_96 = (IPv6Network("::/96"), IPv6Network("::ffff:0:0/96"), IPv6Network("::ffff:0:0:0/96"), _NAT64)
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")


def reason_closed(address: Address, opened: Sequence[Network] = ()) -> str | None:
    """Why no request may go to this address, or None when one may."""
    inner = list(embedded_ipv4(address))
    if address in _METADATA or any(each in _METADATA for each in inner):
        return "serves a cloud's secrets"
    if any(address in network for network in opened):
        return None
    if isinstance(address, IPv4Address):
        return next((what for network, what in _CLOSED_V4.items() if address in network), None)
    if address in _NAT64:  # how an IPv6-only network reaches the IPv4 internet
        return reason_closed(inner[0], opened)
    if address not in _UNICAST_V6:
        return "not a public unicast address"
    for network, what in _CLOSED_V6.items():
        if address in network:
            return what
    return next((f"carries {each}" for each in inner if reason_closed(each, opened)), None)


def embedded_ipv4(address: Address) -> Iterator[IPv4Address]:
    """Every IPv4 address that a router, gateway or tunnel could take from this address."""
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    if any(address in network for network in _LOW_96):
        yield _low_32(bits)
    if address in _SIX_TO_FOUR:
        yield _low_32(bits >> 80)
    if address in _TEREDO:
        yield _low_32(bits >> 64)  # its server
        yield _low_32(bits ^ 0xFFFFFFFF)  # its client, written inverted
    if address in _LOCAL_NAT64:  # RFC 6052: bits 64 to 71 are left out, for every length of the prefix
        yield _low_32(bits)
        yield _low_32((bits >> 48 & 0xFFFF0000) | (bits >> 40 & 0xFFFF))
        yield _low_32((bits >> 40 & 0xFF000000) | (bits >> 32 & 0xFFFFFF))
        yield _low_32(bits >> 24)
    if (bits >> 32) & 0xFDFFFFFF == 0x5EFE:  # ISATAP, with any prefix
        yield _low_32(bits)


def _low_32(bits: int) -> IPv4Address:
    return IPv4Address(bits & 0xFFFFFFFF)
