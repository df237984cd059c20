"""Signing in with a password and with the one-time link of the command, in the browser."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tenure.web import asgi
from tenure.web.passwords import hash_password
from tests.browser.conftest import Visit
from tests.support.browser.serving import served
from tests.support.browser.shops import Shop, copied_shop
from tests.support.browser.visitor import Visitor, visitor

PASSWORD = "correct horse battery"
_CHEAP = 2**4  # the cost of the hash: the real one takes a quarter of a second


@pytest.fixture
def shop_on(shop_template: Path, tmp_path: Path) -> Iterator[Shop]:
    """A shop whose settings have a user."""
    users = {"ops": {"password": hash_password(PASSWORD, _CHEAP), "role": "operator"}}
    with copied_shop(shop_template, tmp_path, dashboard={"users": users}) as shop:
        yield shop


@pytest.fixture
def address(shop_on: Shop) -> Iterator[str]:
    application = asgi(shop_on.app)
    with served(application) as url:
        yield url
    application.close()


def sign_in(looking: Visitor, user: str, password: str) -> None:
    looking.page.get_by_label("User").fill(user)
    looking.page.get_by_label("Password").fill(password)
    looking.page.get_by_role("button", name="Sign in").click()


def actions(shop: Shop) -> list[tuple[str, str, str]]:
    audit = shop.app.parts().audit
    assert audit is not None
    return [(each.action, each.actor, each.state) for each in audit.page(limit=3)]


def test_a_user_signs_in_goes_on_to_the_page_and_signs_out(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/jobs?queue=emails")
    assert "send_receipt" not in looking.page.content()
    assert looking.axe() == []
    sign_in(looking, "ops", PASSWORD)
    looking.page.wait_for_url("**/jobs?queue=emails")
    expect(looking.main).to_contain_text("send_receipt")
    assert actions(shop_on)[0] == ("sign-in", "ops", "done")
    cookie = next(each for each in looking.context.cookies() if each["name"].startswith("tenure_session"))
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")

    looking.page.locator("#user > summary").click()
    looking.page.get_by_role("button", name="Sign out").click()
    expect(looking.page.get_by_label("Password")).to_be_visible()
    looking.context.add_cookies([cookie])
    looking.open("/jobs")
    assert "send_receipt" not in looking.page.content(), "a session that was ended must not come back"


def test_wrong_passwords_are_refused_and_soon_have_to_wait(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/")
    for user in ("ops", "ops", "nobody", "ops", "ops"):
        sign_in(looking, user, "wrong")
        expect(looking.page.get_by_label("Password")).to_be_visible()
        expect(looking.page.get_by_label("User")).to_have_value(user)
    sign_in(looking, "ops", PASSWORD)
    expect(looking.page.locator("body")).to_contain_text("minute")
    assert "send_receipt" not in looking.page.content()
    assert all(action == "sign-in" and state != "done" for action, _, state in actions(shop_on))


@pytest.fixture
def command(shop_template: Path, tmp_path: Path) -> Iterator[str]:
    """What `tenure dashboard` printed; it runs on a copy of the shop."""
    for file in shop_template.iterdir():
        shutil.copy2(file, tmp_path / file.name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    environment |= {"TENURE_URL": "sqlite:///shop.db", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "dashboard", "--port", "0"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl+C" in line:
                break
        yield "".join(lines)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(30) == 0


def test_the_link_of_the_command_opens_the_dashboard_once(command: str, chromium: Browser) -> None:
    link = re.search(r"http://127\.0\.0\.1:\d+/link/\S+", command)
    assert link, command
    root = link[0].partition("/link/")[0]
    looking = visitor(chromium, root)
    looking.page.goto(link[0])
    expect(looking.page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(looking.page.get_by_role("navigation", name="Pages")).to_contain_text("Settings")
    assert looking.problems == []

    other = visitor(chromium, root)
    other.page.goto(link[0])
    expect(other.page.locator("body")).to_contain_text("used")
    assert other.axe() == []
    other.open("/")
    expect(other.page.get_by_role("heading", name="Overview")).to_have_count(0)
    for each in (looking, other):
        each.context.close()
