"""Which addresses a request may go to, by a table of our own.

`ipaddress.is_global` is not enough: its answers differ between releases of Python, and it calls NAT64, IPv4-compatible
and multicast addresses global.
An address that carries an IPv4 address inside is judged by that one as well.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

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


def fault_of(address: Address, opened: Sequence[Network] = ()) -> str | None:
    """Why no request may go to this address, or None when one may."""
    inner = list(embedded(address))
    if address in _METADATA or any(each in _METADATA for each in inner):
        return "serves a cloud's secrets"
    if any(address in network for network in opened):
        return None
    if isinstance(address, IPv4Address):
        return next((what for network, what in _CLOSED_V4.items() if address in network), None)
    if address in _NAT64:  # what an IPv6-only network sees of the IPv4 internet
        return fault_of(inner[0], opened)
    if address not in _UNICAST_V6:
        return "not a public unicast address"
    for network, what in _CLOSED_V6.items():
        if address in network:
            return what
    return next((f"carries {each}" for each in inner if fault_of(each, opened)), None)


def embedded(address: Address) -> Iterator[IPv4Address]:
    """Every IPv4 address that a router, gateway or tunnel could read out of this one."""
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    if any(address in network for network in _LOW_96):
        yield _low(bits)
    if address in _SIX_TO_FOUR:
        yield _low(bits >> 80)
    if address in _TEREDO:
        yield _low(bits >> 64)  # its server
        yield _low(bits ^ 0xFFFFFFFF)  # its client, written inverted
    if address in _LOCAL_NAT64:  # RFC 6052: bits 64 to 71 are left out, wherever the prefix ends
        yield _low(bits)
        yield _low((bits >> 48 & 0xFFFF0000) | (bits >> 40 & 0xFFFF))
        yield _low((bits >> 40 & 0xFF000000) | (bits >> 32 & 0xFFFFFF))
        yield _low(bits >> 24)
    if (bits >> 32) & 0xFDFFFFFF == 0x5EFE:  # ISATAP, with any prefix
        yield _low(bits)


def _low(bits: int) -> IPv4Address:
    return IPv4Address(bits & 0xFFFFFFFF)
