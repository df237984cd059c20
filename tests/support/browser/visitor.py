"""Visitor: a page of Chromium that notes everything that a page of the dashboard must not do."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

from tests.support.browser.chromium import arguments, driver_libraries, environment, installed_chromium
from tests.support.waiting import WAIT_SECONDS

DESKTOP = (1440, 900)
PHONE = (390, 844)
NARROW = (360, 740)
_LISTEN = """
addEventListener("securitypolicyviolation", event =>
    console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile || ""}`));
"""
_AXE = Axe()
expect.set_options(timeout=WAIT_SECONDS * 1000)


@contextmanager
def started_chromium() -> Iterator[Browser]:
    """A browser; raises Missing if there is none."""
    program = installed_chromium()
    with tempfile.TemporaryDirectory(prefix="tenure-chromium-") as folder:
        with _driver_variables():
            playwright = sync_playwright().start()
        try:
            browser = playwright.chromium.launch(
                executable_path=program, args=arguments(program), env={**environment(program, Path(folder))}
            )
            yield browser
            browser.close()
        finally:
            playwright.stop()


@contextmanager
def _driver_variables() -> Iterator[None]:
    """Let Playwright's own program, which starts with the variables of this process, find its library."""
    before = os.environ.get("LD_LIBRARY_PATH")
    added = ":".join(map(str, driver_libraries()))
    if not added:
        yield
        return
    os.environ["LD_LIBRARY_PATH"] = f"{before}:{added}" if before else added
    try:
        yield
    finally:
        if before is None:
            del os.environ["LD_LIBRARY_PATH"]
        else:
            os.environ["LD_LIBRARY_PATH"] = before


class Visitor:
    """Opens addresses below `root`, as one user with own cookies.

    `problems` are errors of the console, exceptions, violations of the CSP, dialogs and requests to other hosts.
    """

    def __init__(self, context: BrowserContext, root: str) -> None:
        self.context = context
        self.root = root
        self.problems: list[str] = []
        context.set_default_timeout(WAIT_SECONDS * 1000)
        context.add_init_script(_LISTEN)
        context.on("request", self._note_request)
        self.page = context.new_page()
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        self.page.on("dialog", self._note_dialog)

    def open(self, path: str) -> Response:
        response = self.page.goto(self.root + path)
        assert response is not None
        return response

    def axe(self) -> list[str]:
        """The violations of rules of accessibility, each with the first elements that violate it."""
        found = _AXE.run(self.page).response["violations"]
        return [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        width: int = self.page.evaluate(
            "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - window.innerWidth"
        )
        return max(0, width)

    def _note_console(self, message: ConsoleMessage) -> None:
        # Chromium reports each answer from 400 on as an error; tests check the status of what they open.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"{message.type}: {message.text}")

    def _note_dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self.root.rstrip("/"):
            self.problems.append(f"request to another host: {request.url}")

    @property
    def main(self) -> Any:
        return self.page.get_by_role("main")


def visitor(
    browser: Browser,
    root: str,
    *,
    size: tuple[int, int] = DESKTOP,
    theme: str = "light",
    scripts: bool = True,
) -> Visitor:
    """A visitor with a window of this size and theme, with or without JavaScript."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        java_script_enabled=scripts,
        has_touch=size[0] < 720,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    return Visitor(context, root)


def page_text(page: Page) -> str:
    """The text that a reader sees; numbers and units are joined by plain spaces."""
    return page.locator("body").inner_text().replace("\u00a0", " ")
