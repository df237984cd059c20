"""The Django example as its users run it: manage.py, web server, worker, and a browser for shop and admin."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.visitor import Visitor, started_chromium, visitor
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing
from tests.support.waiting import WAIT_SECONDS, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "django_orders"
DASHBOARD = "/admin/tenure/backgroundjobs"
LOGIN = {
    "DJANGO_SUPERUSER_USERNAME": "ada",
    "DJANGO_SUPERUSER_PASSWORD": "a long secret 42",
    "DJANGO_SUPERUSER_EMAIL": "",
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@dataclass(frozen=True)
class Site:
    """The example in a folder of its own, with these variables."""

    folder: Path
    variables: dict[str, str]

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLE / "manage.py"), *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def running(self, *command: str) -> Iterator[None]:
        """A process of the site; its output is in the file `log`, and it must end well when it is told to stop."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command], cwd=self.folder, env=self.variables, stdout=log, stderr=log
            )
            try:
                yield
            finally:
                process.terminate()
                process.wait(WAIT_SECONDS)

    @contextmanager
    def served(self, server: str) -> Iterator[str]:
        """The address of the site behind a WSGI or an ASGI server."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        wsgi = (str(EXAMPLE / "manage.py"), "runserver", "--noreload", f"127.0.0.1:{port}")
        asgi = ("-m", "uvicorn", "--app-dir", str(EXAMPLE), "--port", str(port), "config.asgi:application")
        with self.running(*(wsgi if server == "wsgi" else asgi)):
            eventually(lambda: answers(f"http://127.0.0.1:{port}/orders.json"))
            yield f"http://127.0.0.1:{port}"


def answers(address: str) -> bool:
    try:
        with urlopen(address) as answer:
            return answer.status == 200
    except URLError:
        return False


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(started_chromium())
        except Missing as missing:
            raise absent(missing) from missing
        yield browser


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """Migrated, with a superuser."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "DJANGO_", "PG"))}
    variables = {**kept, **LOGIN}
    if request.param == "postgresql":
        parts = urlsplit(request.getfixturevalue("postgres_url"))
        query = dict(parse_qsl(parts.query))
        variables |= {
            "POSTGRES_DB": parts.path.removeprefix("/"),
            "POSTGRES_USER": unquote(parts.username or ""),
            "POSTGRES_PASSWORD": unquote(parts.password or ""),
            "POSTGRES_HOST": parts.hostname or query.get("host", ""),
            "POSTGRES_PORT": str(parts.port or ""),
        }
    site = Site(tmp_path, variables)
    site.manage("migrate", "-v", "0")
    site.manage("createsuperuser", "--noinput")
    return site


def test_an_order_is_invoiced_by_a_job_and_staff_see_it_in_the_admin(site: Site, chromium: Browser) -> None:
    server = "asgi" if "POSTGRES_DB" in site.variables else "wsgi"
    with site.served(server) as address, site.running(str(EXAMPLE / "manage.py"), "tenure", "work"):
        guest = visitor(chromium, address)
        order(guest, "tea", 2)
        eventually(lambda: guest.open("/").ok and guest.page.get_by_role("cell", name="INV-00001").is_visible())
        guest.context.close()

        staff = visitor(chromium, address)
        sign_in_to_admin(staff)
        look_at_the_job(staff)
        pause_the_queue(staff)
        assert staff.problems == []
        staff.context.close()
    record = site.manage("tenure", "audit")
    assert ("ada" in record, "queue.pause" in record, "stock-taking" in record) == (True, True, True)


def order(guest: Visitor, article: str, quantity: int) -> None:
    guest.open("/")
    guest.page.get_by_label("Article").fill(article)
    guest.page.get_by_label("Quantity").fill(str(quantity))
    guest.page.get_by_role("button", name="Order").click()
    expect(guest.page.get_by_role("cell", name=article)).to_be_visible()


def sign_in_to_admin(staff: Visitor) -> None:
    """The dashboard sends a stranger to the login of the admin, which sends the user back to the dashboard."""
    staff.open(f"{DASHBOARD}/jobs?state=done")
    staff.page.get_by_label("Username").fill(LOGIN["DJANGO_SUPERUSER_USERNAME"])
    staff.page.get_by_label("Password").fill(LOGIN["DJANGO_SUPERUSER_PASSWORD"])
    staff.page.get_by_role("button", name="Log in").click()
    expect(staff.page).to_have_url(re.compile(f"{DASHBOARD}/jobs"))
    staff.open("/admin/")
    staff.page.get_by_role("main").get_by_role("link", name="Jobs", exact=True).click()
    expect(staff.page).to_have_url(re.compile(f"{DASHBOARD}/$"))


def look_at_the_job(staff: Visitor) -> None:
    staff.open(f"{DASHBOARD}/jobs?state=done")
    expect(staff.main.get_by_text("orders.invoice").first).to_be_visible()
    staff.open(f"{DASHBOARD}/schedules")
    expect(staff.main.get_by_text("orders.forget_old_orders").first).to_be_visible()


def pause_the_queue(staff: Visitor) -> None:
    staff.open(f"{DASHBOARD}/act/queue.pause?queue=default&back={DASHBOARD}/queues")
    staff.main.get_by_label(re.compile("why|reason", re.IGNORECASE)).fill("stock-taking")
    staff.main.get_by_role("button", name=re.compile("pause", re.IGNORECASE)).click()
    expect(staff.main.get_by_text("stock-taking").first).to_be_visible()


def test_the_example_tests_itself(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "DJANGO_"))}
    assert "\nOK" in Site(tmp_path, variables).manage("test", "orders")
