"""Headers of every answer, static files, cookies of preferences, and what depends on the host and the path."""

import re
from http.cookies import SimpleCookie

import pytest

from tenure.app.dashboard.access import everything
from tests.support.web_app import browser_of, sign_in

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.mark.parametrize(
    "path",
    ["/", "/queues", "/nothing", "/queues?window=x", "/static/tenure.css", "/api/health", "/api/nothing", "/sign-in"],
)
def test_every_answer_is_protected(admin, path):
    headers = admin.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "server" not in headers


@pytest.mark.parametrize("path", ["/queues", "/nothing", "/act/queue.pause?queue=emails", "/api/health"])
def test_pages_are_not_kept_by_browsers_and_proxies(admin, path):
    assert admin.get(path).headers["cache-control"] == "no-store"


def test_pages_have_no_inline_scripts_styles_or_other_hosts(admin):
    for path in ("/", "/queues", "/nothing", "/act/queue.pause?queue=emails"):
        page = admin.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", page)
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", page)


def test_static_files_of_a_page_are_kept_for_ever_and_change_their_address(admin):
    address = re.search(r'href="(/static/tenure\.css\?\w+)"', admin.get("/queues").text)[1]
    answer = admin.get(address)
    assert answer.headers["content-type"].startswith("text/css")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert admin.get("/static/tenure.css?old").headers["cache-control"] == "no-cache"
    known = {"if-none-match": answer.headers["etag"]}
    assert admin.get("/static/tenure.css?old", headers=known).status_code == 304


@pytest.mark.parametrize("path", ["/static/", "/static/none.css", "/static/%2e%2e/pages.py", "/static//etc/passwd"])
def test_nothing_but_static_files_is_static(admin, path):
    assert admin.get(path).status_code == 404


def test_the_host_of_a_request_is_never_part_of_an_answer(app, opened):
    stranger = browser_of(opened(app))
    headers = {"host": "evil.example", "origin": "http://evil.example", "x-forwarded-host": "evil.example"}
    answers = [
        stranger.get("/queues", headers=headers),
        stranger.get("/sign-in", headers=headers),
        stranger.post("/sign-out", headers=headers),
        stranger.get("/queues/", headers=headers),
    ]
    for answer in answers:
        assert "evil" not in answer.text
        assert "evil" not in str(answer.headers)


def test_preferences_are_kept_in_cookies_and_lead_back(admin):
    answer = admin.post(
        "/preferences", data={"theme": "dark", "live": "15", "keys": "off", "next": "/queues?window=1h"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues?window=1h")
    page = admin.get("/queues").text
    assert 'data-theme="dark"' in page
    assert 'data-live-seconds="15"' in page
    assert 'data-keys="off"' in page
    admin.post("/preferences", data={"live": "0"})
    assert 'data-live-seconds="0"' in admin.get("/queues").text


@pytest.mark.parametrize(
    "form", [{"theme": "pink"}, {"live": "1"}, {"other": "x"}, {"theme": "dark", "next": "//evil"}]
)
def test_unknown_preferences_are_refused(admin, form):
    answer = admin.post("/preferences", data=form)
    assert (answer.status_code, "set-cookie" in answer.headers) == (400, False)


def test_cookies_with_nonsense_are_ignored(app, opened):
    web = opened(app, lambda request: everything("ada"))
    cookies = {"tenure_theme": '"><script>', "tenure_live": "-1", "tenure_flash": "x.y", "tenure_session": "z"}
    page = browser_of(web, cookies=cookies).get("/queues")
    assert (page.status_code, 'data-theme="auto"' in page.text, "<script>" in page.text) == (200, True, False)


def test_a_flash_of_another_user_or_by_another_hand_is_not_shown(app, opened):
    ada = browser_of(opened(app, lambda request: everything("ada")))
    answer = ada.post("/act/queue.pause", data={"queue": "emails", "why": "x", "back": "/queues"})
    flash = SimpleCookie(answer.headers["set-cookie"])["tenure_flash"].value
    eve = browser_of(opened(app, lambda request: everything("eve")), cookies={"tenure_flash": flash})
    assert "no job starts" not in eve.get("/queues").text.partition('id="toasts"')[2]
    assert "no job starts" in ada.get("/queues").text.partition('id="toasts"')[2]


def test_cookies_belong_to_the_path_of_the_dashboard(app, opened):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    browser = browser_of(Starlette(routes=[Mount("/ops/tenure", opened(app))]))
    answer = browser.post("/ops/tenure/sign-in", data={"user": "olga", "password": "correct horse"})
    assert SimpleCookie(answer.headers["set-cookie"])["tenure_session"]["path"] == "/ops/tenure"


def test_who_is_known_by_a_hook_cannot_sign_out_here(app, admin, opened):
    assert "Sign out" not in admin.get("/queues").text
    browser = browser_of(opened(app))
    sign_in(browser)
    assert "Sign out" in browser.get("/queues").text
