"""URLs are parsed strictly, and refused where two parsers could see two hosts."""

import pytest

from tenure.builtin.url_destination import MAX_URL_LENGTH, Destination, authorise_request, parse_url
from tenure.errors import Refused
from tenure.permissions import Http

REFUSED = [
    "",
    "http",
    "http:",
    "http://",
    "http:///path",
    "//example.com/",
    "example.com",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "dict://127.0.0.1:11211/stats",
    "unix:///var/run/docker.sock",
    "javascript:alert(1)",
    "data:text/plain,hello",
    "ws://example.com/",
    " http://example.com/",
    "http://example.com/ ",
    "http://exa mple.com/",
    "http://example.com/a b",
    "http://exa\tmple.com/",
    "http://example.com\r\nX-Injected: 1/",
    "http://example.com/\r\nX-Injected: 1",
    "http://example.com/\x00",
    "http://example.com\x00.evil.com/",
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://good.com@127.0.0.1/",
    "http://good.com\\@127.0.0.1/",
    "http://127.0.0.1\\.good.com/",
    "http://good.com\\\\127.0.0.1/",
    "http://good.com#@127.0.0.1/",
    "http://good.com/#fragment",
    "http://good.com?#@127.0.0.1/",
    "http://good.com%2f@127.0.0.1/",
    "http://127.0.0.1%00.good.com/",
    "http://%31%32%37.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://127.0.0.1.1/",
    "http://127.0.0.256/",
    "http://0/",
    "http://0x/",
    "http://1.2.3.0x4/",
    "http://example.1/",
    "http://\uff11\uff12\uff17.0.0.1/",  # digits of full width
    "http://127\u30020\u30020\u30021/",  # full stops that are not
    "http://\u2460\u2461\u2466.0.0.1/",  # digits in circles
    "http://ex\u00e4mple.com/",
    "http://example.com\u2215@127.0.0.1/",
    "http://exam\u00adple.com/",  # a soft hyphen, which IDNA drops
    "http://example.com/\u202e",
    "http://[::1/",
    "http://::1/",
    "http://[::1%25lo]/",
    "http://[::1%lo]/",
    "http://[fe80::1%eth0]/",
    "http://[]/",
    "http://[:]/",
    "http://[::g]/",
    "http://[1:2:3]/",
    "http://[127.0.0.1]/",
    "http://[::ffff:127.0.0.1]evil.com/",
    "http://[::1]:x/",
    "http://example.com:/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:99999999/",
    "http://example.com:-1/",
    "http://example.com:80:80/",
    "http://example.com:80@127.0.0.1/",
    "http://example..com/",
    "http://.example.com/",
    "http://-example.com/",
    "http://example-.com/",
    "http://example.com../",
    f"http://{'a' * 64}.com/",
    f"http://{'a.' * 130}com/",
    "http://example.com;127.0.0.1/",
    "http://example.com,127.0.0.1/",
    "http://example.com&@127.0.0.1/",
    "http:/example.com/",
    "http:\\\\example.com\\",
    "http:example.com",
    "https:\t//example.com/",
    "ht\ntp://example.com/",
    "url:http://example.com/",
    f"http://example.com/{'a' * MAX_URL_LENGTH}",
]


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url):
    with pytest.raises(Refused, match="the URL cannot be used"):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://example.com", ("http", "example.com", 80, "/", "example.com")),
        ("HTTPS://EXAMPLE.com./a?b=c%20d", ("https", "example.com", 443, "/a?b=c%20d", "example.com")),
        ("https://example.com:8443/", ("https", "example.com", 8443, "/", "example.com:8443")),
        ("https://example.com:443/", ("https", "example.com", 443, "/", "example.com")),
        ("http://a?b=c", ("http", "a", 80, "/?b=c", "a")),
        ("http://xn--exmple-cua.com/", ("http", "xn--exmple-cua.com", 80, "/", "xn--exmple-cua.com")),
        ("http://192.0.2.1/", ("http", "192.0.2.1", 80, "/", "192.0.2.1")),
        ("http://[2001:DB8::1]:81/", ("http", "2001:db8::1", 81, "/", "[2001:db8::1]:81")),
        ("http://_dmarc.example.com/", ("http", "_dmarc.example.com", 80, "/", "_dmarc.example.com")),
        ("http://3com.com/@a/b:c", ("http", "3com.com", 80, "/@a/b:c", "3com.com")),
    ],
)
def test_a_plain_url_is_read_into_its_parts(url, parts):
    target = parse_url(url)

    assert (target.scheme, target.host, target.port, target.path, target.authority) == parts


@pytest.mark.parametrize("url", ["https://host/?key=CANARY#", "https://host/CANARY path", "ftp://user:CANARY@host/"])
def test_an_error_does_not_show_where_secrets_are(url):
    with pytest.raises(Refused) as caught:
        parse_url(url)

    assert "CANARY" not in str(caught.value)


def permitted(**rules: object) -> Http:
    return Http(**{"allow": ("api.example.com", ".trusted.org"), **rules})


@pytest.mark.parametrize("url", ["https://api.example.com/", "https://a.trusted.org/", "https://a.b.trusted.org/"])
def test_hosts_are_allowed_by_name_or_by_what_they_end_in(url):
    authorise_request(permitted(), parse_url(url), "GET")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "https://xapi.example.com/",
        "https://api.example.com.evil.com/",
        "https://trusted.org/",
        "https://eviltrusted.org/",
        "https://93.184.216.34/",
        "https://[2600::1]/",
    ],
)
def test_other_hosts_are_refused(url):
    with pytest.raises(Refused, match=r"'http\.allow' does not name it"):
        authorise_request(permitted(), parse_url(url), "GET")


def test_without_an_allowlist_no_host_is_allowed_and_the_message_says_what_to_set():
    with pytest.raises(Refused, match=r"'http\.allow'.*\[tool\.tenure\.http\]"):
        authorise_request(Http(), parse_url("https://example.com/"), "GET")


def test_a_star_allows_every_host():
    authorise_request(Http(allow=("*",)), parse_url("https://anything.example/"), "GET")


def test_an_address_is_allowed_by_its_own_entry_alone():
    authorise_request(Http(allow=("[2600::1]",)), parse_url("https://[2600:0::1]/"), "GET")


@pytest.mark.parametrize(
    ("url", "method", "said"),
    [
        ("http://api.example.com/", "GET", "url|http.schemes"),
        ("https://api.example.com/", "TRACE", "http.methods"),
        ("https://api.example.com/", "CONNECT", "http.methods"),
        ("https://api.example.com/", "G\nET", "http.methods"),
        ("https://api.example.com:22/", "GET", "http.ports"),
        ("https://api.example.com:6379/", "GET", "http.ports"),
    ],
)
def test_schemes_methods_and_ports_are_allowed_by_the_settings(url, method, said):
    with pytest.raises(Refused, match=said):
        authorise_request(permitted(), parse_url(url), method)


def test_a_target_is_a_value():
    assert parse_url("http://a/") == Destination("http", "a", 80, "/", None)
