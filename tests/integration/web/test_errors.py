"""Errors are pages with the right status, which say what is wrong and nothing of the inside."""

import logging

import pytest

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.queues import QueuesQuery
from tenure.errors import BackendUnavailable
from tests.support.web_app import browser_of


def test_an_unknown_address_is_not_found(admin):
    answer = admin.get("/nothing/here")
    assert (answer.status_code, "There is no such page" in answer.text) == (404, True)


def test_an_unknown_action_and_an_unknown_record_are_not_found(admin):
    assert admin.get("/act/queue.explode").status_code == 404
    assert admin.get("/audit/0190-unknown").status_code == 404


def test_a_bad_filter_is_refused_with_what_is_wrong(admin):
    answer = admin.get("/queues?window=soon")
    assert (answer.status_code, "window" in answer.text) == (400, True)
    assert admin.get("/queues?windw=1h").status_code == 400
    assert "did you mean" in admin.get("/queues?windw=1h").text.lower()


def test_what_a_role_may_not_read_is_forbidden(app, opened):
    viewer = browser_of(opened(app, lambda request: Access(user="vera")))
    assert viewer.get("/settings").status_code == 403
    assert viewer.get("/queues").status_code == 200


def test_a_method_that_an_address_does_not_know_is_told(admin):
    answer = admin.post("/queues", data={})
    assert (answer.status_code, "GET" in answer.headers["allow"]) == (405, True)
    assert admin.get("/preferences").status_code == 405


def test_a_head_request_has_headers_and_no_body(admin):
    answer = admin.head("/queues")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 1000


def test_huge_addresses_and_forms_are_refused(admin):
    assert admin.get("/queues?window=" + "x" * 20_000).status_code == 414
    assert admin.post("/act/queue.pause", data={"queue": "x" * 1_100_000}).status_code == 413
    many = {f"field{n}": "x" for n in range(3000)}
    assert admin.post("/act/queue.pause", data=many).status_code == 400


def test_a_form_of_another_type_is_refused(admin):
    answer = admin.post("/act/queue.pause", json={"queue": "emails"})
    assert answer.status_code == 415


def test_a_form_that_is_not_text_is_refused(admin):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert admin.post("/act/queue.pause", content=b"queue=%ff%fe", headers=headers).status_code == 400
    assert admin.post("/act/queue.pause", content=b"queue=\xff", headers=headers).status_code == 400


def test_an_error_of_ours_is_logged_and_shows_nothing_of_itself(admin, monkeypatch, caplog):
    def fail(self, sources, access):
        raise RuntimeError("secret internals")

    monkeypatch.setattr(QueuesQuery, "read", fail)
    with caplog.at_level(logging.ERROR):
        answer = admin.get("/queues")
    assert (answer.status_code, "secret internals" in answer.text, "Traceback" in answer.text) == (500, False, False)
    assert "secret internals" in caplog.text


def test_a_backend_that_is_down_is_told_with_the_last_figures(admin, monkeypatch):
    assert "emails" in admin.get("/queues").text

    def fail(self, sources, access):
        raise BackendUnavailable("cannot reach postgresql://ops:hunter2@db.example.com/jobs: no answer")

    monkeypatch.setattr(QueuesQuery, "read", fail)
    answer = admin.get("/queues?window=24h")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "db.example.com/jobs: no answer" in answer.text
    assert "hunter2" not in answer.text
    assert "The last figures" in answer.text
    assert "asks again every 5 s" in answer.text


def test_the_last_figures_are_those_of_the_queues_that_the_user_sees(app, opened, monkeypatch):
    def fail(self, sources, access):
        raise BackendUnavailable("no answer")

    monkeypatch.setattr(QueuesQuery, "read", fail)
    web = opened(app, lambda request: Access(user="vera", queues=(request.headers["queue"],)))
    pages = [browser_of(web).get("/queues", headers={"queue": queue}).text for queue in ("emails", "reports")]
    assert ["<dd>3</dd>" in page for page in pages] == [True, False]


def test_a_backend_that_never_answered_is_told_too(opened):
    with Tenure("redis://127.0.0.1:1", environment="development") as app:
        browser = browser_of(opened(app, lambda request: everything("ada")))
        assert browser.get("/queues").status_code == 503


def test_an_error_in_the_page_of_an_error_is_still_an_answer(web, admin, monkeypatch, caplog):
    def fail(*arguments, **options):
        raise RuntimeError("no page")

    monkeypatch.setattr(type(web.web._renderer), "page", fail)
    answer = admin.get("/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert "no page" in caplog.text


@pytest.mark.parametrize("path", ["//evil.example/%2e%2e", "/static/../application.py", "/%00", "/act/"])
def test_strange_addresses_lead_nowhere(admin, path):
    answer = admin.get(path)
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_text_of_an_address_is_escaped(admin):
    answer = admin.get("/queues?%3Cscript%3E=1")
    assert answer.status_code == 400
    assert "<script>" not in answer.text.replace("<script src=", "")


def test_a_slash_at_the_end_of_an_address_does_not_matter(admin):
    assert admin.get("/queues/").status_code == 200
