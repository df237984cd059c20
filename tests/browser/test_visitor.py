"""The visitor of the other tests notes what it must: a page that does everything wrong has every problem."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.support.browser.pictures import small_png
from tests.support.browser.serving import served
from tests.support.browser.visitor import NARROW, Visitor, visitor

POLICY = {"content-security-policy": "default-src 'none'; script-src 'self'"}
WRONG = """<!doctype html><html><title>Wrong</title><body>
<script>alert(1)</script>
<img src="http://192.0.2.1/spy.png">
<input>
<p style="width: 3000px">wide</p>
<div><svg width="3000" height="2"></svg></div>
"""
RIGHT = (
    """<!doctype html><html lang="en"><title>Right</title><body><main><h1>Right</h1><p>text</p></main></body></html>"""
)


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    def page(request: Request) -> Response:
        return HTMLResponse(WRONG if request.url.path == "/wrong" else RIGHT, headers=POLICY)

    with served(Starlette(routes=[Route("/wrong", page), Route("/right", page)])) as url:
        yield url


@pytest.fixture
def looking(chromium: Browser, root: str) -> Iterator[Visitor]:
    found = visitor(chromium, root, size=NARROW)
    yield found
    found.context.close()


def test_a_wrong_page_has_every_problem(looking: Visitor) -> None:
    looking.open("/wrong")
    problems = "\n".join(looking.problems)
    assert "CSP violation: script-src-elem inline" in problems
    assert "CSP violation: style-src-attr inline" in problems
    assert "request to another host: http://192.0.2.1/spy.png" in problems
    assert looking.overflow() > 2000
    violations = "\n".join(looking.axe())
    assert "image-alt" in violations
    assert "label" in violations
    assert "html-has-lang" in violations


def test_a_right_page_has_no_problem(looking: Visitor) -> None:
    looking.open("/right")
    assert looking.problems == []
    assert looking.overflow() == 0
    assert looking.axe() == []


def test_a_script_that_opens_a_dialog_is_noted(looking: Visitor) -> None:
    looking.open("/right")
    with looking.page.expect_event("dialog"):
        looking.page.evaluate("setTimeout(() => alert('injected'))")
    assert looking.problems == ["dialog: injected"]


def test_a_picture_has_a_palette_and_the_size_of_the_window(looking: Visitor) -> None:
    looking.open("/right")
    picture = small_png(looking.page)
    assert picture[16:24] == (360).to_bytes(4) + (740).to_bytes(4)
    assert picture[25] == 3, "the colour type of a palette"
    assert len(picture) < 10_000
