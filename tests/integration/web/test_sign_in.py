"""Who is let in: passwords, sessions, one-time links, tokens and hooks; every sign-in is in the audit log."""

import logging
from http.cookies import SimpleCookie

import pytest

from tenure.app.dashboard.access import Access, everything
from tenure.backends.records import AuditRecord
from tenure.errors import SettingsError
from tenure.web.users import users_of, with_owner
from tests.support.web_app import PASSWORD, TOKEN, USERS, browser_of, make_app, sign_in

COOKIE = "tenure_session"


@pytest.fixture
def web(app, opened):
    return opened(app)


@pytest.fixture
def browser(web):
    return browser_of(web)


@pytest.fixture
def owned(app, opened):
    """A dashboard that gives one-time links, as `tenure dashboard` does."""
    users = with_owner(users_of(app), "root")
    web = opened(app, users=users)
    web.links = users.links
    return web


def cookie_of(answer, name=COOKIE):
    return SimpleCookie(answer.headers["set-cookie"])[name]


def sign_ins(app) -> list[AuditRecord]:
    return [each for each in app.parts().audit.page(limit=500) if each.action == "sign-in"]


def test_a_stranger_is_sent_to_sign_in_and_comes_back_afterwards(browser):
    answer = browser.get("/queues?window=24h")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?back=%2Fqueues%3Fwindow%3D24h")
    assert "emails" not in answer.text
    form = browser.get(answer.headers["location"]).text
    assert 'name="back" value="/queues?window=24h"' in form
    assert sign_in(browser, back="/queues?window=24h").headers["location"] == "/queues?window=24h"
    assert browser.get("/queues?window=24h").status_code == 200


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_signing_in_leads_to_no_other_site(browser, back):
    assert "evil" not in browser.get("/sign-in", params={"back": back}).text
    assert sign_in(browser, back=back).headers["location"] == "/"


def test_a_strange_path_is_no_way_out_either(browser):
    answer = browser.get("//evil.example/x", headers={"sec-fetch-site": "cross-site"})
    assert "evil" not in f"{answer.headers.get('location')}{answer.headers.get('refresh')}"


def test_a_session_has_the_rights_of_its_user(browser):
    sign_in(browser, "vera")
    page = browser.get("/queues").text
    assert ("vera" in page, "viewer" in page, "Sign out" in page) == (True, True, True)
    assert browser.get("/settings").status_code == 403
    assert browser.post("/act/queue.pause", data={"queue": "emails", "why": "x"}).status_code == 403


def test_a_user_sees_the_queues_of_the_settings_only(app, browser):
    app.define("send", {"user": 1}).queue("reports").dispatch()
    sign_in(browser, "vera")
    assert ("emails" in browser.get("/queues").text, "reports" in browser.get("/queues").text) == (True, False)


def test_a_user_has_the_actions_of_the_settings_only(tmp_path, opened):
    olga = {**USERS["users"]["olga"], "actions": ["queue.pause"]}
    with make_app(tmp_path, dashboard={"users": {"olga": olga}}) as app:
        browser = browser_of(opened(app))
        sign_in(browser)
        form = {"queue": "emails", "why": "x"}
        assert browser.post("/act/queue.drain", data=form).status_code == 403
        assert browser.post("/act/queue.pause", data=form).status_code == 303


def test_a_token_sees_the_queues_of_the_settings_only(tmp_path, opened):
    token = {**USERS["tokens"]["ci"], "queues": ["reports"]}
    with make_app(tmp_path, dashboard={"tokens": {"ci": token}}) as app:
        answer = browser_of(opened(app)).get("/api/queues", headers={"authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, "emails" in answer.text) == (200, False)


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(app, web, browser):
    cookie = cookie_of(sign_in(browser))
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "strict", "/", "")
    assert cookie["max-age"] == str(12 * 3600)
    secure = browser_of(web, base_url="https://testserver")
    answer = secure.post(
        "/sign-in", data={"user": "olga", "password": PASSWORD}, headers={"origin": "https://testserver"}
    )
    assert cookie_of(answer)["secure"] is True


def test_the_length_of_a_session_is_a_setting(tmp_path, opened):
    with make_app(tmp_path, dashboard={**USERS, "session": 0.5}) as app:
        assert cookie_of(sign_in(browser_of(opened(app))))["max-age"] == "1800"


def test_signing_out_ends_the_session_for_every_process(app, opened, web, browser):
    sign_in(browser)
    stolen = browser.cookies[COOKIE]
    assert browser.post("/sign-out").headers["location"] == "/sign-in"
    assert COOKIE not in browser.cookies
    for each in (web, opened(app)):  # the second is another process, which shares the audit log
        thief = browser_of(each, cookies={COOKIE: stolen})
        assert thief.get("/queues").status_code == 303


def test_another_process_of_the_app_knows_the_session(app, opened, browser):
    sign_in(browser)
    assert browser_of(opened(app), cookies={COOKIE: browser.cookies[COOKIE]}).get("/queues").status_code == 200


def test_another_app_does_not_know_the_session(browser, tmp_path, opened):
    sign_in(browser)
    (tmp_path / "other").mkdir()
    with make_app(tmp_path / "other", dashboard=USERS) as other:
        thief = browser_of(opened(other), cookies={COOKIE: browser.cookies[COOKIE]})
        assert thief.get("/queues").status_code == 303


def test_wrong_users_and_passwords_get_the_same_answer(app, browser, caplog):
    answers = [sign_in(browser, "olga", "wrong"), sign_in(browser, "nobody", "wrong"), sign_in(browser, "olga", "")]
    assert [each.status_code for each in answers] == [401] * 3
    assert answers[0].text.replace("olga", "nobody") == answers[1].text
    assert all("set-cookie" not in each.headers for each in answers)
    assert [(each.actor, each.state, each.error) for each in sign_ins(app)] == [
        ("olga", "failed", "wrong user or password"),
        ("nobody", "failed", "wrong user or password"),
        ("olga", "failed", "wrong user or password"),
    ]


def test_after_five_wrong_passwords_even_the_right_one_must_wait(browser):
    assert [sign_in(browser, password="wrong").status_code for _ in range(5)] == [401] * 5
    answer = sign_in(browser)
    assert answer.status_code == 429
    assert 30 < int(answer.headers["retry-after"]) <= 60
    assert "Wait a minute" in answer.text
    assert "set-cookie" not in answer.headers


def test_every_sign_in_is_in_the_audit_log_and_refused_ones_cannot_fill_it(app, browser, caplog):
    sign_in(browser)
    for number in range(20):
        sign_in(browser, f"guess {number}", "wrong")
    found = sign_ins(app)
    assert [each.actor for each in found if each.state == "done"] == ["olga"]
    assert len(found) == 1 + 5
    assert PASSWORD not in caplog.text


def test_a_hostile_name_is_escaped_and_cut(app, browser):
    name = "<script>alert(1)</script>\x1b[2J" + "x" * 500
    answer = sign_in(browser, name, "wrong")
    assert "<script>alert" not in answer.text
    (record,) = sign_ins(app)
    assert len(record.actor) <= 80
    assert "\x1b" not in record.actor


def test_a_sign_in_form_with_other_fields_is_refused(browser):
    assert sign_in(browser, role="admin").status_code == 400
    assert browser.post("/sign-in", data={"user": ["olga", "vera"], "password": PASSWORD}).status_code == 400


def test_another_site_can_sign_nobody_in_or_out(browser):
    foreign = {"origin": "https://evil.example"}
    form = {"user": "olga", "password": PASSWORD}
    assert browser.post("/sign-in", data=form, headers=foreign).status_code == 403
    sign_in(browser)
    assert browser.post("/sign-out", headers=foreign).status_code == 403
    assert browser.get("/queues").status_code == 200


def test_a_link_on_another_site_opens_the_page_of_a_user_who_is_signed_in(browser):
    answer = browser.get("/queues", headers={"sec-fetch-site": "cross-site"})
    assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/queues")
    assert "emails" not in answer.text


def test_a_one_time_link_opens_the_dashboard_once(app, owned, caplog):
    browser, token = browser_of(owned, client=("127.0.0.1", 5000)), owned.links.new()
    assert browser.head(f"/link/{token}").status_code == 204, "looking at a link does not use it up"
    answer = browser.get(f"/link/{token}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert cookie_of(answer)["samesite"] == "lax"
    assert browser.get("/settings").status_code == 200, "the owner of the process may do all"
    with caplog.at_level(logging.WARNING):
        again = browser_of(owned, client=("127.0.0.1", 5000)).get(f"/link/{token}")
    assert (again.status_code, "This link has been used" in again.text) == (403, True)
    assert "the one-time link is used" in caplog.text
    assert [(each.actor, each.state) for each in sign_ins(app)] == [("", "failed"), ("root", "done")]


def test_what_is_wrong_with_a_link_is_told_on_the_same_host_only(owned):
    here = browser_of(owned, client=("127.0.0.1", 5000)).get("/link/guess").text
    elsewhere = browser_of(owned, client=("192.0.2.7", 5000)).get("/link/guess").text
    assert ("not known" in here, "not known" in elsewhere) == (True, False)


def test_the_session_of_a_link_ends_with_its_process(app, owned, opened):
    browser = browser_of(owned)
    browser.get(f"/link/{owned.links.new()}")
    again = opened(app, users=with_owner(users_of(app), "root"))
    assert browser_of(again, cookies={COOKIE: browser.cookies[COOKIE]}).get("/queues").status_code == 303


def test_the_owner_of_the_process_cannot_sign_in_with_a_password(owned):
    assert [sign_in(browser_of(owned), "root", password).status_code for password in ("", "root")] == [401, 401]


def test_without_hook_and_users_the_dashboard_is_closed(tmp_path, opened):
    with make_app(tmp_path) as app:
        browser = browser_of(opened(app))
        for path in ("/queues", "/sign-in", "/act/queue.pause?queue=emails"):
            answer = browser.get(path)
            assert (answer.status_code, "setting &#39;dashboard&#39;" in answer.text) == (403, True)
        assert browser.post("/act/queue.pause", data={"queue": "emails", "why": "x"}).status_code == 403
        assert browser.get("/api/health").status_code == 401
        assert browser.get("/static/tenure.css").status_code == 200


def test_a_hook_decides_and_users_of_the_settings_sign_in_where_it_does_not_know(app, opened):
    web = opened(app, lambda request: everything("ada") if "ada" in request.headers.get("cookie", "") else None)
    assert "ada" in browser_of(web, cookies={"host_session": "ada"}).get("/queues").text
    assert browser_of(web).get("/queues").headers["location"].startswith("/sign-in")


def test_a_hook_without_users_answers_that_the_user_is_not_known(tmp_path, opened):
    with make_app(tmp_path) as app:
        assert browser_of(opened(app, lambda request: None)).get("/queues").status_code == 401


def test_a_hook_may_be_async(app, opened):
    async def access(request):
        return Access(user="ada", role="viewer")

    assert "ada" in browser_of(opened(app, access)).get("/queues").text


@pytest.mark.parametrize("answer", [True, "admin", object()])
def test_a_hook_that_returns_something_else_lets_nobody_in(app, opened, answer, caplog):
    assert browser_of(opened(app, lambda request: answer)).get("/queues").status_code == 500
    assert "must return an Access or None" in caplog.text


def test_a_hook_that_fails_lets_nobody_in(app, opened, caplog):
    def access(request):
        raise KeyError("session")

    assert browser_of(opened(app, access)).get("/queues").status_code == 500


def test_a_token_uses_the_api_with_its_own_rights(app, web):
    client, token = browser_of(web), {"authorization": f"Bearer {TOKEN}"}
    del client.headers["origin"]
    assert client.get("/api/queues", headers=token).status_code == 200
    assert client.post("/api/act/queue.resume", json={"queue": "emails"}, headers=token).status_code == 403
    assert client.post("/api/act/queue.pause", json={"queue": "emails"}, headers=token).status_code == 200
    assert app.parts().audit.page(limit=1)[0].actor == "ci"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic b2xnYTp4", f"Token {TOKEN}"])
def test_the_api_is_closed_without_a_token(web, header):
    answer = browser_of(web).get("/api/queues", headers={"authorization": header})
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_api_accepts_a_session_but_no_form_of_another_site(browser):
    sign_in(browser)
    assert browser.get("/api/queues").status_code == 200
    foreign = browser.post("/api/act/queue.pause", json={"queue": "emails"}, headers={"origin": "https://evil.example"})
    assert (foreign.status_code, foreign.json()["error"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"users": {"olga": {"password": "plain"}}}, "must be a hash"),
        ({"tokens": {"ci": {"sha256": "short"}}}, "64 hexadecimal digits"),
        ({"users": {"olga": {**USERS["users"]["olga"], "role": "root"}}}, "root"),
        ({"session": 0}, "more than 0 hours"),
        ({"user": {}}, "did you mean"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path, settings, text):
    with pytest.raises(SettingsError, match=text):
        make_app(tmp_path, dashboard=settings)


def test_unknown_actions_and_damaged_hashes_are_refused_when_the_dashboard_is_made(tmp_path, opened):
    olga = USERS["users"]["olga"]
    for change, text in (({"actions": ["jobs.explode"]}, "jobs.explode"), ({"password": "scrypt$1"}, "damaged")):
        with (
            make_app(tmp_path, dashboard={"users": {"olga": {**olga, **change}}}) as app,
            pytest.raises(SettingsError, match=text),
        ):
            opened(app)


def test_secrets_of_the_settings_are_not_shown(app):
    assert "scrypt" not in repr(app.settings)
