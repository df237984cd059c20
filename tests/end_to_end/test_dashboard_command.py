"""`tenure dashboard` as a user starts it: links, addresses, signals, passwords and tokens."""

import http.client
import json
import re
import signal
import socket
import tomllib

import pytest

from tenure.web.passwords import hash_password, hash_token, is_right
from tests.support.waiting import STOP_SECONDS

USER = f'[dashboard.users.ops]\npassword = "{hash_password("correct horse")}"\n'


class Running:
    """A dashboard that was started, and what it printed."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        for line in process.stdout:
            self.lines.append(line.strip())
            if line.startswith("Press Ctrl+C"):
                break
        self.text = "\n".join(self.lines)
        found = re.search(r"The dashboard is at http://([\d.]+):(\d+)", self.text)
        assert found, f"{self.text}\n{process.stderr.read() if process.poll() is not None else ''}"
        self.host, self.port = found[1], int(found[2])

    @property
    def link(self):
        return re.search(r"http://[^/]+(/\S*link/\S+)", self.text)[1]

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=STOP_SECONDS)
        return self.process.returncode, out, err


@pytest.fixture
def dashboard(tenure):
    def start(*arguments, **environment):
        return Running(tenure.start("dashboard", *arguments, **environment))

    return start


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_with_nothing_configured_it_creates_a_database_and_opens_with_a_link(tenure, dashboard):
    tenure.without("TENURE_URL", "TENURE_APP")
    running = dashboard("--port", "0")
    assert (tenure.folder / "tenure.db").exists()
    assert running.get("/")[0] == 303, "without the link nobody gets in"
    status, headers, _ = running.get(running.link)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"].partition(";")[0]
    status, _, page = running.get("/", cookie=cookie)
    assert (status, "Overview" in page) == (200, True)
    assert running.get("/settings", cookie=cookie)[0] == 200
    status, _, page = running.get(running.link)
    assert (status, "This link has been used" in page) == (403, True)
    code, out, err = running.stop()
    assert (code, out) == (0, "The dashboard has stopped.\n")
    assert "one-time link is used" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_the_named_app_and_stops_cleanly(tenure, dashboard, number):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    running = dashboard("--port", "0")
    cookie = running.get(running.link)[1]["set-cookie"].partition(";")[0]
    assert "shop" in running.get("/queues", cookie=cookie)[2]
    assert running.stop(number) == (0, "The dashboard has stopped.\n", "")


def test_if_the_default_port_is_taken_it_chooses_another_and_says_so(dashboard):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8642))
            taken.listen()
        except OSError:
            pass  # something else has taken it, which is as good
        running = dashboard()
        assert running.port != 8642
        assert "8642 is in use" in running.text
        running.stop()


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(tenure):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = tenure("dashboard", "--port", str(port))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_another_address_is_refused_without_users_or_tokens(tenure, host):
    done = tenure("dashboard", "--host", host, "--port", str(free_port()))
    assert done.returncode == 2
    assert "can be reached from other hosts" in done.stderr


def test_another_address_is_served_with_users_and_without_a_link(tenure, dashboard):
    (tenure.folder / "tenure.toml").write_text(USER)
    running = dashboard("--host", "0.0.0.0", "--port", "0")
    assert "link" not in running.text
    status, _, page = running.get("/sign-in")
    assert (status, 'name="password"' in page) == (200, True)
    assert running.get("/link/guess")[0] == 404
    running.stop()


def test_below_a_path_it_answers_whether_the_proxy_removes_the_path_or_not(dashboard):
    running = dashboard("--port", "0", "--root-path", "/ops/", "--forwarded-allow-ips", "127.0.0.1")
    assert running.link.startswith("/ops/link/")
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.9"}
    status, headers, _ = running.get(running.link.removeprefix("/ops"), **forwarded)
    assert (status, headers["location"]) == (303, "/ops/")
    assert "Path=/ops;" in headers["set-cookie"]
    assert "; Secure" in headers["set-cookie"]
    cookie = headers["set-cookie"].partition(";")[0]
    for path in ("/ops/queues", "/queues"):
        status, _, page = running.get(path, cookie=cookie)
        assert (status, 'href="/ops/queues"' in page, 'href="/queues"' in page) == (200, True, False)
    running.stop()


def test_headers_of_a_proxy_that_is_not_trusted_are_ignored(dashboard):
    running = dashboard("--port", "0")
    _, headers, _ = running.get(running.link, **{"x-forwarded-proto": "https"})
    assert "Secure" not in headers["set-cookie"]
    running.stop()


def test_a_server_that_is_down_is_told_by_the_page_and_not_by_the_command(tenure, dashboard):
    running = dashboard("--port", "0", TENURE_URL=f"redis://127.0.0.1:{free_port()}", TENURE_ENVIRONMENT="development")
    for _ in range(2):  # the link is not used up
        status, _, page = running.get(running.link)
        assert (status, "does not answer" in page) == (503, True)
    code, _, err = running.stop()
    assert code == 0
    assert "cannot be reached" in err


def test_a_password_is_hashed_for_the_settings(tenure):
    done = tenure("dashboard", "--hash-password", answer="correct horse\n")
    assert done.returncode == 0
    assert is_right("correct horse", done.stdout.strip())
    short = tenure("dashboard", "--hash-password", answer="short\n")
    assert (short.returncode, "at least 8" in short.stderr or "8 to" in short.stderr) == (2, True)


def test_a_token_is_printed_once_with_its_settings(tenure, dashboard):
    made = tenure("dashboard", "--new-token", "ci")
    token = made.stdout.strip()
    settings = made.stderr.partition("\n\n")[2]
    assert tomllib.loads(settings)["dashboard"]["tokens"]["ci"] == {"sha256": hash_token(token), "role": "viewer"}
    assert token not in settings
    (tenure.folder / "tenure.toml").write_text(settings)
    running = dashboard("--port", "0")
    status, _, body = running.get("/api/health", authorization=f"Bearer {token}")
    assert (status, "queues" in json.loads(body)) == (200, True)
    remote = tenure("--remote", f"http://127.0.0.1:{running.port}", "health", TENURE_REMOTE_TOKEN=token)
    assert remote.returncode == 0, remote.stderr
    running.stop()


def test_without_its_packages_it_says_what_to_install(tenure):
    (tenure.folder / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')")
    done = tenure("dashboard", PYTHONPATH=f"{tenure.folder}:{tenure.environment.get('PYTHONPATH', '')}")
    assert (done.returncode, "pip install 'tenure[dashboard]'" in done.stderr) == (2, True)
