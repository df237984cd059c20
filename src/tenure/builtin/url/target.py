"""A URL read strictly, once, into the parts that are used; what readers could disagree on is refused."""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from tenure.builtin.url.address import Address
from tenure.errors import Refused
from tenure.permissions import Http

MAX_LENGTH = 2048
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
class Target:
    """`host` is what the certificate and the Host header say; `literal` is the address, if the host is one."""

    scheme: str
    host: str
    port: int
    path: str
    literal: Address | None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if isinstance(self.literal, IPv6Address) else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse(url: str) -> Target:
    """The parts of a URL; no message shows its path or query, where secrets are."""
    if len(url) > MAX_LENGTH:
        raise _bad(f"it has {len(url)} characters, more than {MAX_LENGTH}")
    found = _URL.fullmatch(url)
    if found is None:
        raise _bad(
            "it must be scheme://host[:port][/path][?query] in plain ASCII, without user, fragment, spaces, "
            "backslashes or control characters; write an international host in its xn-- form"
        )
    scheme = found["scheme"].lower()
    if scheme not in _PORTS:
        raise _bad(f"its scheme is {scheme!r:.40}; http and https are known")
    host, literal = _literal_v6(found["v6"]) if found["v6"] else _host(found["host"])
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    if not 0 < port < 65_536:
        raise _bad(f"there is no port {port}")
    path = found["target"]
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}", literal)


def authorise(permitted: Http, target: Target, method: str) -> None:
    """Raise Refused unless the settings allow this much of a request; addresses are judged when it is sent."""
    if not permitted.allow:
        raise Refused(
            f"no request may go to {target.host!r}: no host is allowed; name those that are in the setting "
            "'http.allow', such as allow = [\"api.example.com\"] in the table [tool.tenure.http]"
        )
    if not any(_names(entry, target) for entry in permitted.allow):
        raise Refused(f"no request may go to {target.host!r}: the setting 'http.allow' does not name it")
    if target.scheme not in permitted.schemes:
        raise Refused(f"scheme {target.scheme!r} is not allowed; the setting 'http.schemes' names those that are")
    if method not in permitted.methods:
        raise Refused(f"method {method!r:.40} is not allowed; the setting 'http.methods' names those that are")
    if target.port not in permitted.ports:
        raise Refused(f"port {target.port} is not allowed; the setting 'http.ports' names those that are")


def _names(entry: str, target: Target) -> bool:
    host = f"[{target.host}]" if isinstance(target.literal, IPv6Address) else target.host
    return entry in ("*", host) or (entry.startswith(".") and target.literal is None and host.endswith(entry))


def _host(text: str) -> tuple[str, Address | None]:
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise _bad(f"{text!r:.80} is not the name of a host")
    if not _NUMERIC.fullmatch(labels[-1]):
        return host, None
    try:  # resolvers read 127.1, 0x7f000001 and 0177.0.0.1 as addresses: only the plain form is one for us
        address = IPv4Address(host)
    except AddressValueError:
        raise _bad(f"{text!r:.80} is an address in an unusual form; write it as 192.0.2.1") from None
    return str(address), address


def _literal_v6(text: str) -> tuple[str, Address]:
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise _bad(str(error)) from None
    return str(address), address


def _bad(why: str) -> Refused:
    return Refused(f"the URL cannot be used: {why}", reason="invalid_payload")
