"""The url handler connects only to the address that was checked, within its limits."""

import socket
import ssl
import sys
import threading
import time

import pytest
import trustme

from tenure import Context, Retry
from tenure.builtin.url import Request, RequestTimer, Sender, start_tls
from tenure.builtin.url_destination import parse_url
from tenure.errors import Refused, RequestFailed, UnknownHandler
from tenure.permissions import Http
from tests.support.http_server import Server, response
from tests.support.waiting import WAIT_SECONDS

LOOPBACK = ("127.0.0.0/8", "::1/128")
HELLO = response(body=b"hello")
# Which step the time ends in depends on the machine.
TIME_IS_UP = "did not answer in time|took longer than|cannot be reached|no trusted TLS connection"


@pytest.fixture
def serve():
    """Starts servers, and stops them."""
    servers = []

    def start(answer=HELLO, **options):
        servers.append(Server(answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture
def bundle(authority, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    return str(tmp_path / "authority.pem")


def certified(authority, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def send(url, server=None, find=lambda host, port: ["127.0.0.1"], time_left=None, request=None, **rules):
    """Sends one request; the settings allow the server's port, http and loopback unless told otherwise."""
    ports = (server.port,) if server else (80, 443)
    permitted = {"allow": ("*",), "schemes": ("http", "https"), "ports": ports, "networks": LOOPBACK, **rules}
    deadline = None if time_left is None else time.monotonic() + time_left
    context = Context(id="1", handler="url", payload=None, queue="default", deadline=deadline)
    return Sender(Http(**permitted), find).perform(context, Request(url=url, **request or {}))


def test_the_body_of_the_answer_is_the_result(serve):
    server = serve()

    assert send(f"http://api.test:{server.port}/path?q=1", server) == "hello"


def test_the_request_names_the_host_and_asks_for_nothing_special(serve):
    server = serve()

    send(f"http://api.test:{server.port}/path?q=1", server, request={"headers": {"Accept": "text/plain"}})

    line, *headers = server.requests[0].decode().strip().split("\r\n")
    assert line == "GET /path?q=1 HTTP/1.1"
    assert {header.lower() for header in headers} == {
        f"host: api.test:{server.port}",
        "user-agent: tenure",
        "accept-encoding: identity",
        "connection: close",
        "accept: text/plain",
    }


def test_json_and_text_are_sent_as_bodies(serve):
    server = serve()

    send(f"http://api.test:{server.port}/", server, request={"method": "post", "json": {"a": [1, None]}})
    send(f"http://api.test:{server.port}/", server, request={"method": "PUT", "body": "text"})

    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    assert b"Content-Length: 14" in head
    assert head.startswith(b"POST ")
    assert body == b'{"a":[1,null]}'
    assert server.requests[1].endswith(b"\r\n\r\ntext")


def test_https_is_checked_against_the_name_in_the_url(serve, authority, bundle):
    server = serve(tls=certified(authority, "api.test"))

    assert send(f"https://api.test:{server.port}/", server, certificates=bundle) == "hello"
    assert server.names == ["api.test"]


def test_https_to_an_address_is_checked_against_that_address(serve, authority, bundle):
    server = serve(tls=certified(authority, "127.0.0.1"))

    assert send(f"https://127.0.0.1:{server.port}/", server, certificates=bundle) == "hello"


def test_a_certificate_for_another_name_is_refused(serve, authority, bundle):
    server = serve(tls=certified(authority, "other.test"))

    with pytest.raises(RequestFailed, match="no trusted TLS connection"):
        send(f"https://api.test:{server.port}/", server, certificates=bundle)


def test_a_certificate_of_an_unknown_authority_is_refused(serve, authority):
    server = serve(tls=certified(authority, "api.test"))

    with pytest.raises(RequestFailed, match="no trusted TLS connection"):
        send(f"https://api.test:{server.port}/", server)


def test_nothing_in_a_payload_turns_certificate_checks_off():
    assert set(Request.__struct_fields__) == {"url", "method", "headers", "body", "json"}


ANSWERS = [
    ["127.0.0.1"],
    ["10.0.0.1"],
    ["169.254.169.254"],
    ["::1"],
    ["::ffff:127.0.0.1"],
    ["fe80::1%lo"],
    ["64:ff9b::7f00:1"],
    ["2002:7f00:1::"],
    ["fd00:ec2::254"],
    ["93.184.216.34", "127.0.0.1"],
    ["127.0.0.1", "93.184.216.34"],
    ["2600::1", "::1"],
    ["0.0.0.0"],
    ["224.0.0.1"],
    ["255.255.255.255"],
    ["100.64.0.1"],
]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_one_closed_address_among_a_names_answers_refuses_it_before_anything_is_sent(serve, scheme, answer):
    server = serve()

    with pytest.raises(Refused, match=r"no request may go to host 'api\.test'"):
        send(f"{scheme}://api.test:{server.port}/", server, lambda host, port: answer, networks=())

    assert server.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "[fd00:ec2::254]"])
def test_an_address_in_the_url_is_judged_like_any_other(host):
    with pytest.raises(Refused, match="is closed"):
        send(f"http://{host}/", networks=())


def test_metadata_addresses_stay_closed_when_everything_is_opened():
    with pytest.raises(Refused, match="serves a cloud's secrets"):
        send("http://169.254.169.254/latest/meta-data/", networks=("0.0.0.0/0", "::/0"))


def test_a_name_is_resolved_once_and_its_address_is_the_one_connected_to(serve, monkeypatch):
    """Rebinding: a second look at the name would lead elsewhere."""
    first, asked = serve(), []
    second = Server(HELLO, address="127.0.0.2")

    def rebinding(host, port, *args, **options):
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    from tenure.builtin.url_destination import resolve

    try:
        send(f"http://rebind.test:{first.port}/", first, resolve)
    finally:
        second.close()

    assert (asked, len(first.requests), second.requests) == (["rebind.test"], 1, [])


def test_a_name_that_turns_bad_is_judged_anew_for_each_request(serve):
    server, answers = serve(), [["127.0.0.1"], ["10.0.0.1"]]

    assert send(f"http://rebind.test:{server.port}/", server, lambda host, port: answers.pop(0)) == "hello"
    with pytest.raises(Refused):
        send(f"http://rebind.test:{server.port}/", server, lambda host, port: answers.pop(0))


def test_proxies_of_the_environment_are_not_used(serve, monkeypatch):
    proxy, server = serve(response(body=b"from the proxy")), serve()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")

    assert send(f"http://api.test:{server.port}/", server) == "hello"
    assert proxy.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(serve, status):
    elsewhere = serve()
    server = serve(response(status, Location=f"http://127.0.0.1:{elsewhere.port}/"))

    with pytest.raises(RequestFailed, match="never followed"):
        send(f"http://api.test:{server.port}/", server, ports=(server.port, elsewhere.port))

    assert elsewhere.requests == []


@pytest.mark.parametrize("status", [400, 404, 422, 500, 503])
def test_a_bad_status_fails_with_the_status_and_the_beginning_of_the_body(serve, status):
    server = serve(response(status, b"no such thing"))

    with pytest.raises(RequestFailed, match=f"status {status}: no such thing") as caught:
        send(f"http://api.test:{server.port}/", server)

    assert caught.value.status == status


def test_which_statuses_fail_can_be_set(serve):
    server = serve(response(404, b"gone"))

    assert send(f"http://api.test:{server.port}/", server, failing_status=500) == "gone"


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed(serve, status):
    server = serve(response(status, Retry_After=17))

    with pytest.raises(Retry) as caught:
        send(f"http://api.test:{server.port}/", server)

    assert caught.value.delay == 17


def test_retry_after_is_bounded(serve):
    server = serve(response(503, Retry_After=999999))

    with pytest.raises(Retry) as caught:
        send(f"http://api.test:{server.port}/", server, max_retry_after=60)

    assert caught.value.delay == 60


def test_a_large_body_is_cut(serve):
    server = serve(response(body=b"x" * 300_000))

    assert send(f"http://api.test:{server.port}/", server, max_body=1000) == "x" * 1000 + "… (cut)"


def endless(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\nx\r\n" * 1000)


def endless_head(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X: y\r\n" * 1000)


def endless_hints(connection):
    while True:
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)


def trickle(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def test_an_endless_body_is_cut(serve):
    server = serve(endless)

    assert send(f"http://api.test:{server.port}/", server, max_body=5000).endswith("… (cut)")


@pytest.mark.parametrize("answer", [endless_head, endless_hints])
def test_an_endless_head_is_refused(serve, answer):
    server = serve(answer)

    with pytest.raises(RequestFailed, match="larger than the settings allow"):
        send(f"http://api.test:{server.port}/", server)


def test_one_deadline_holds_for_the_whole_exchange(serve):
    server, begun = serve(trickle), time.monotonic()

    with pytest.raises(RequestFailed, match=TIME_IS_UP):
        send(f"http://api.test:{server.port}/", server, timeout=0.5)

    assert time.monotonic() - begun < 25  # the whole answer takes 50 s


def test_the_attempts_own_deadline_holds_as_well(serve):
    server = serve(trickle)

    with pytest.raises(RequestFailed, match=TIME_IS_UP):
        send(f"http://api.test:{server.port}/", server, time_left=0.3)


def test_a_server_that_never_answers_is_left(serve):
    silence = threading.Event()
    server = serve(lambda connection: silence.wait(WAIT_SECONDS))

    with pytest.raises(RequestFailed, match=TIME_IS_UP):
        send(f"http://api.test:{server.port}/", server, timeout=0.3)
    silence.set()


def test_a_resolver_that_never_answers_is_left():
    silence = threading.Event()

    with pytest.raises(RequestFailed, match=TIME_IS_UP):
        send("http://slow.test/", find=lambda host, port: silence.wait(WAIT_SECONDS), timeout=0.2)
    silence.set()


def test_a_handshake_that_never_ends_is_left(serve):
    silence = threading.Event()
    server = serve(lambda connection: silence.wait(WAIT_SECONDS))

    with pytest.raises(RequestFailed, match=TIME_IS_UP):
        send(f"https://api.test:{server.port}/", server, timeout=0.3)
    silence.set()


def test_a_connection_whose_time_is_over_before_its_handshake_is_closed():
    sock = socket.socket()
    over = RequestTimer(0)

    with pytest.raises(RequestFailed, match="took longer"):
        start_tls(sock, parse_url("https://api.test/"), None, over, 1.0)
    assert sock.fileno() == -1


def test_a_name_without_an_address_fails_and_can_be_retried():
    def unknown(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(RequestFailed, match=r"cannot be resolved: .*not known"):
        send("http://nowhere.test/", find=unknown)


def test_the_next_address_is_tried_when_one_does_not_answer(serve):
    server = serve()

    answer = send(f"http://api.test:{server.port}/", server, lambda host, port: ["127.0.0.99", "127.0.0.1"])

    assert answer == "hello"


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "GZIP, identity"])
def test_a_compressed_answer_is_refused(serve, encoding):
    server = serve(response(body=b"bomb", Content_Encoding=encoding))

    with pytest.raises(RequestFailed, match="compressed"):
        send(f"http://api.test:{server.port}/", server)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x00" * 100,
    ],
)
def test_an_answer_that_is_none_fails(serve, answer):
    server = serve(answer)

    with pytest.raises(RequestFailed, match="exchange with host"):
        send(f"http://api.test:{server.port}/", server)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "internal"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("Cookie", "session=1"),
        ("Connection", "upgrade"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "0"),
        ("Proxy-Authorization", "x"),
        ("User-Agent", "x"),
        ("Accept-Encoding", "gzip"),
        ("", "x"),
        ("accept\r\nx", "y"),
        ("accept:", "y"),
    ],
)
def test_a_header_that_is_not_allowed_is_refused(name, value):
    with pytest.raises(Refused, match="is not allowed"):
        send("http://api.test/", request={"headers": {name: value}})


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nb", "a\0b", "a\x7f", "é"])
def test_a_header_cannot_smuggle_another(value):
    with pytest.raises(Refused, match="contains invalid characters"):
        send("http://api.test/", request={"headers": {"Accept": value}})


def test_headers_that_are_ours_cannot_be_allowed():
    with pytest.raises(Refused, match="'host' is not allowed"):
        send("http://api.test/", headers=("Host",), request={"headers": {"host": "internal"}})


def test_body_and_json_exclude_each_other():
    with pytest.raises(Refused, match="not both"):
        send("http://api.test/", request={"body": "x", "json": 1})


def test_a_refused_url_never_gets_into_a_queue(make_app):
    app = make_app(http={"allow": ["api.example.com"]})

    with pytest.raises(Refused, match=r"'http\.allow' does not name it"):
        app.define("url", {"url": "https://internal/"}).dispatch()


def test_a_job_goes_all_the_way(make_app, outcome_of, serve):
    server = serve()
    app = make_app(
        http={"allow": ["localhost"], "schemes": ["http"], "ports": [server.port], "networks": ["127.0.0.0/8", "::1"]}
    )

    record = outcome_of(app, "url", {"url": f"http://localhost:{server.port}/", "method": "GET"})

    assert (record.state, record.output) == ("done", "hello")


def test_an_address_that_turns_out_closed_is_a_dead_letter_at_once(make_app, outcome_of):
    app = make_app(http={"allow": ["localhost"], "schemes": ["http"]})

    record = outcome_of(app, "url", {"url": "http://localhost/"}, max_retries=5)

    assert (record.reason, record.attempts) == ("forbidden", 0)


def test_retry_after_delays_the_job(make_app, serve):
    server = serve(response(503, Retry_After=100))
    app = make_app(
        http={"allow": ["127.0.0.1"], "schemes": ["http"], "ports": [server.port], "networks": ["127.0.0.0/8"]}
    )

    id = app.define("url", {"url": f"http://127.0.0.1:{server.port}/"}).max_retries(3).dispatch()
    app.worker(burst=True).run()

    record = app.backend.jobs.find(id)
    assert (record.state, record.attempts) == ("delayed", 1)
    assert 90_000_000 < record.due_at - app.clock.now() <= 100_000_000


def test_without_the_library_a_url_job_is_refused_where_it_is_enqueued(monkeypatch, make_app):
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    app = make_app(http={"allow": ["api.test"]})

    with pytest.raises(UnknownHandler, match=r"not installed here; install it with: pip install 'tenure\[http\]'"):
        app.define("url", {"url": "https://api.test/"})


def test_a_url_job_waits_for_a_worker_that_has_the_library(monkeypatch, make_app, tmp_path):
    url, rules = f"sqlite:///{tmp_path}/queue.db", {"http": {"allow": ["api.test"]}}
    id = make_app(url, **rules).define("url", {"url": "https://api.test/"}).max_retries(3).dispatch()
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    app = make_app(url, **rules)

    app.worker(burst=True).run()

    record = app.backend.jobs.find(id)
    assert (record.state, record.attempts) == ("delayed", 0)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", "naïve".encode("latin-1"), "naïve"),
        ('text/html; CHARSET="Shift_JIS"', "日本".encode("shift_jis"), "日本"),
        ("text/plain;charset=utf-16", "naïve ☃".encode("utf-16"), "naïve ☃"),
        ("application/json", "naïve ☃".encode(), "naïve ☃"),
        ("text/plain; charset=no-such-set", "naïve".encode(), "naïve"),
        ("text/plain; charset=punycode", b"naive-", "naive-"),
        ("text/plain; charset=zip", b"naive", "naive"),
        ("text/plain; charset=utf-8", b"\xff", "\ufffd"),
    ],
)
def test_the_body_is_read_in_the_character_set_that_the_answer_names(serve, kind, body, text):
    server = serve(response(body=body, Content_Type=kind))

    assert send(f"http://api.test:{server.port}/", server) == text
