"""Which IP addresses are allowed, and every IPv4 address that an IPv6 one contains."""

from ipaddress import ip_address, ip_network

import pytest

from tenure.builtin.url_destination import embedded_ipv4, reason_closed

CLOSED = [
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.0.0.53",
    "127.255.255.255",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::127.0.0.1",
    "::10.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "64:ff9b:1:7f00:0:100::",
    "64:ff9b:1::7f00:1",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:0:7f00:1::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2002:808:808::1",
    "2002:a9fe:a9fe::",
    "3ffe::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::5efe:7f00:1",
    "febf::1",
    "fec0::1",
    "ff00::1",
    "ff02::1",
    "ff0e::1",
    "2600::5efe:7f00:1",
    "2600::200:5efe:a00:1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
]

OPEN = [
    "1.1.1.1",
    "8.8.8.8",
    "9.9.9.9",
    "11.0.0.1",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "192.167.255.255",
    "192.169.0.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "2600::1",
    "64:ff9b::8.8.8.8",
    "2600::5efe:808:808",
]


@pytest.mark.parametrize("text", CLOSED)
def test_an_address_that_is_not_public_is_closed(text):
    assert reason_closed(ip_address(text))


@pytest.mark.parametrize("text", OPEN)
def test_a_public_address_is_open(text):
    assert reason_closed(ip_address(text)) is None


@pytest.mark.parametrize("text", ["10.1.2.3", "127.0.0.1", "fd00::1", "::1"])
def test_settings_open_private_networks(text):
    assert reason_closed(ip_address(text), [ip_network(text)]) is None


EVERYTHING = [ip_network("0.0.0.0/0"), ip_network("::/0")]


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "2600::5efe:a9fe:a9fe",
        "2001:0:a9fe:a9fe::1",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:0:a9:fea9:fe00:0",
        "2001:0:808:808:0:0:5601:5601",
        "64:ff9b:1::a9fe:a9fe",
    ],
)
def test_addresses_that_serve_a_clouds_secrets_stay_closed_whatever_is_opened(text):
    assert reason_closed(ip_address(text), EVERYTHING) == "serves a cloud's secrets"


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("::ffff:192.0.2.33", "192.0.2.33"),
        ("2002:c000:221::", "192.0.2.33"),
        ("64:ff9b::192.0.2.33", "192.0.2.33"),
        ("64:ff9b:1:c000:2:2100::", "192.0.2.33"),  # RFC 6052, prefix of 48 bits
        ("64:ff9b:1:c0:0:221::", "192.0.2.33"),  # 56 bits
        ("64:ff9b:1:0:c0:2:2100:0", "192.0.2.33"),  # 64 bits
        ("2001:0:c000:221::", "192.0.2.33"),
        ("2001:0:808:808::3fff:fdde", "192.0.2.33"),
        ("fe80::200:5efe:192.0.2.33", "192.0.2.33"),
    ],
)
def test_the_ipv4_address_inside_is_found(text, inner):
    assert ip_address(inner) in list(embedded_ipv4(ip_address(text)))


def test_a_plain_address_carries_no_other():
    assert list(embedded_ipv4(ip_address("8.8.8.8"))) == list(embedded_ipv4(ip_address("2600::1"))) == []
