"""Actions: a page asks, a form acts; whatever is missing, wrong or forged changes nothing."""

import re
import threading
from typing import ClassVar

import pytest
from msgspec import Struct

from tenure.app.dashboard import core
from tenure.app.dashboard.access import Access
from tenure.app.dashboard.catalogue import BY_ACTION
from tenure.app.dashboard.core import Effect, Preview
from tests.support.waiting import WAIT_SECONDS, eventually
from tests.support.web_app import TOKEN, browser_of, make_app

PAUSE = {"queue": "emails", "why": "migration", "back": "/queues"}


def records(app):
    return app.parts().audit.page(limit=50)


def is_paused(app):
    return "emails" in app.guards.paused("emails")


class Many(Struct, frozen=True, kw_only=True):
    """Cancels as many jobs as the test says, in steps that it can hold."""

    action: ClassVar[str] = "jobs.cancel"
    total: ClassVar[int] = 1509
    go_on: ClassVar[threading.Event]
    ids: tuple[str, ...] = ()

    def target(self):
        return "queue:emails"

    def check(self, sources, access):
        pass

    def preview(self, sources, access):
        effects = (Effect("end at once", "ready", Many.total), Effect("and what is no state"))
        return Preview(
            question=f"Cancel {Many.total} jobs?", verb="Cancel them", effects=effects, total=Many.total, is_final=True
        )

    def steps(self, sources, access):
        for _ in range(4):
            yield {"cancelled": 2}
            Many.go_on.wait(WAIT_SECONDS)

    def outcome(self, counts):
        return f"{counts['cancelled']} jobs were cancelled."

    def undo(self):
        return None


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setitem(BY_ACTION, "jobs.cancel", Many)
    Many.total, Many.go_on = 1509, threading.Event()
    Many.go_on.set()
    yield Many
    Many.go_on.set()


@pytest.fixture
def held(many, monkeypatch):
    """Its first step is done, and the next waits; the answer does not wait for it."""
    monkeypatch.setattr(core, "SAVE_INTERVAL_SECONDS", 0.0)
    many.go_on.clear()
    return many


def test_the_page_that_asks_shows_what_would_happen_and_changes_nothing(app, admin):
    answer = admin.get("/act/queue.pause?queue=emails&back=/queues%3Fwindow=24h")
    assert answer.status_code == 200
    for text in ("Pause queue emails?", "wait until the queue is resumed", 'name="why"', 'value="/queues?window=24h"'):
        assert text in answer.text
    assert (is_paused(app), records(app)) == (False, [])


def test_a_form_acts_and_the_next_page_says_what_was_done_once(app, admin):
    answer = admin.post("/act/queue.pause", data=PAUSE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues")
    assert is_paused(app)
    assert app.guards.paused("emails")["emails"].reason == "migration", "why is the reason of the pause"
    assert "emails is paused" in admin.get("/queues").text
    assert "emails is paused:" not in admin.get("/queues").text
    (record,) = records(app)
    assert (record.actor, record.action, record.target, record.why, record.origin, record.state) == (
        "ada", "queue.pause", "emails", "migration", "web", "done",
    )  # fmt: skip


def test_what_was_done_can_be_undone_with_the_form_of_the_next_page(app, admin):
    admin.post("/act/queue.pause", data=PAUSE)
    page = admin.get("/queues").text
    form = page[page.index('action="/act/queue.resume"><input type="hidden" name="queue" value="emails"') :]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form.partition("</form>")[0]))
    assert admin.post("/act/queue.resume", data=fields).status_code == 303
    assert not is_paused(app)
    assert next((each.action, each.why) for each in records(app)) == ("queue.resume", "undo of queue.pause")


def test_without_a_reason_the_form_is_shown_again_with_what_was_typed(app, admin):
    answer = admin.post("/act/queue.pause", data={**PAUSE, "why": "  "})
    assert (answer.status_code, "Say why" in answer.text, is_paused(app)) == (400, True, False)
    long = admin.post("/act/queue.pause", data={**PAUSE, "why": "x" * 1001})
    assert (long.status_code, "x" * 1001 in long.text, is_paused(app)) == (400, True, False)


def test_taking_back_and_single_jobs_need_no_reason(app, admin, many):
    app.guards.pause("emails")
    assert admin.post("/act/queue.resume", data={"queue": "emails"}).status_code == 303
    assert not is_paused(app)
    Many.total = 1
    assert admin.post("/act/jobs.cancel", data={"ids": "a", "shown": "1"}).status_code == 303
    Many.total = 2
    assert admin.post("/act/jobs.cancel", data={"ids": ["a", "b"], "shown": "2"}).status_code == 400


@pytest.mark.parametrize(
    "changed",
    [
        {"queue": ""},
        {"queue": ["emails", "reports"]},
        {"unknown": "x"},
        {"back": "https://evil.example/"},
        {"back": "//evil.example"},
        {"back": ["/queues", "/"]},
        {"why": ["a", "b"]},
        {"shown": "many"},
        {"shown": "-1"},
    ],
)
def test_a_tampered_form_is_refused_and_nothing_is_done(app, admin, changed):
    assert admin.post("/act/queue.pause", data={**PAUSE, **changed}).status_code == 400
    assert (is_paused(app), records(app)) == (False, [])


def test_a_queue_that_does_not_exist_is_refused(app, admin):
    answer = admin.post("/act/queue.pause", data={**PAUSE, "queue": "emials"})
    assert (answer.status_code, "No queue" in answer.text, records(app)) == (409, True, [])


def test_who_may_not_act_cannot_even_ask(app, opened):
    viewer = browser_of(opened(app, lambda request: Access(user="vera")))
    assert viewer.get("/act/queue.pause?queue=emails").status_code == 403
    assert viewer.post("/act/queue.pause", data=PAUSE).status_code == 403
    assert (is_paused(app), records(app)) == (False, [])


def test_a_queue_that_a_user_does_not_see_cannot_be_changed(app, opened):
    operator = browser_of(opened(app, lambda request: Access(user="olga", role="operator", queues=("reports",))))
    assert operator.post("/act/queue.pause", data=PAUSE).status_code == 403
    assert not is_paused(app)


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_form_of_another_site_does_nothing(app, admin, headers):
    assert admin.post("/act/queue.pause", data=PAUSE, headers=headers).status_code == 403
    assert (is_paused(app), records(app)) == (False, [])


def test_a_form_without_origin_does_nothing_without_a_token(app, web):
    client = browser_of(web)
    del client.headers["origin"]
    assert client.post("/act/queue.pause", data=PAUSE).status_code == 403
    assert not is_paused(app)
    token = {"authorization": f"Bearer {TOKEN}"}
    assert client.post("/act/queue.pause", data=PAUSE, headers=token).status_code == 303
    assert is_paused(app)
    assert records(app)[0].actor == "ci"


def test_forms_of_a_trusted_origin_act(app, opened):
    web = opened(app, lambda request: Access(user="olga", role="operator"), trusted_origins=["https://ops.example.com"])
    headers = {"origin": "https://ops.example.com", "sec-fetch-site": "same-site"}
    assert browser_of(web).post("/act/queue.pause", data=PAUSE, headers=headers).status_code == 303


def test_forms_of_an_origin_of_the_settings_act(tmp_path, opened):
    with make_app(tmp_path, dashboard={"trusted_origins": ["https://ops.example.com"]}) as app:
        browser = browser_of(opened(app, lambda request: Access(user="olga", role="operator")))
        for origin, status in (("https://ops.example.com", 303), ("https://evil.example", 403)):
            answer = browser.post("/act/queue.pause", data=PAUSE, headers={"origin": origin})
            assert answer.status_code == status


def test_above_a_hundred_jobs_the_number_must_be_typed(admin, many):
    page = admin.get("/act/jobs.cancel").text
    assert "Type 1509 to confirm" in page
    assert 'name="shown" value="1509"' in page
    assert "This can not be undone" in page
    form = {"why": "wrong price list", "shown": "1509"}
    for typed in ("", "1508", "None"):
        answer = admin.post("/act/jobs.cancel", data={**form, "typed": typed})
        assert (answer.status_code, "Type 1509" in answer.text) == (400, True)
    assert admin.post("/act/jobs.cancel", data={"why": "x", "typed": "None"}).status_code == 400
    assert admin.post("/act/jobs.cancel", data={**form, "typed": "1,509"}).status_code == 303


def test_if_the_number_has_changed_by_more_than_a_tenth_the_user_is_asked_again(app, admin, many):
    form = {"why": "wrong price list", "shown": "1300", "typed": "1300"}
    answer = admin.post("/act/jobs.cancel", data=form)
    assert (answer.status_code, "has changed from 1,300 to 1,509" in answer.text) == (409, True)
    assert "wrong price list" in answer.text
    assert 'name="shown" value="1509"' in answer.text
    assert records(app) == []
    assert admin.post("/act/jobs.cancel", data={**form, "shown": "1400", "typed": "1400"}).status_code == 303


def test_a_long_action_goes_on_and_shows_how_far_it_is_and_can_be_stopped(app, admin, held):
    form = {"why": "wrong price list", "shown": "1509", "typed": "1509", "back": "/queues"}
    answer = admin.post("/act/jobs.cancel", data=form)
    path = answer.headers["location"]
    assert re.fullmatch(r"/audit/[0-9a-f-]{36}\?back=%2Fqueues", path)
    page = admin.get(path).text
    assert "of 1,509" in page
    assert 'action="/act/bulk.stop"' in page
    assert 'href="/queues"' in page
    id = records(app)[0].id
    stopped = admin.post("/act/bulk.stop", data={"id": id, "back": "/queues"})
    assert (stopped.status_code, stopped.headers["location"]) == (303, f"/audit/{id}?back=%2Fqueues")
    held.go_on.set()
    eventually(lambda: app.parts().audit.find(id).state != "running")
    assert app.parts().audit.find(id).state == "stopped"
    assert "was stopped" in admin.get(path).text


def test_only_the_user_and_readers_of_the_audit_log_see_and_stop_an_action(app, admin, opened, held):
    form = {"why": "wrong price list", "shown": "1509", "typed": "1509"}
    admin.post("/act/jobs.cancel", data=form)
    id = records(app)[0].id
    other = browser_of(opened(app, lambda request: Access(user="olga", role="operator", queues=("emails",))))
    assert other.get(f"/audit/{id}").status_code == 404
    assert other.post("/act/bulk.stop", data={"id": id}).status_code == 403
    reader = browser_of(opened(app, lambda request: Access(user="rita", role="operator")))
    assert reader.get(f"/audit/{id}").status_code == 200


def test_the_way_back_of_the_progress_page_leads_nowhere_else(app, admin):
    admin.post("/act/queue.pause", data=PAUSE)
    page = admin.get(f"/audit/{records(app)[0].id}?back=https://evil.example/")
    assert (page.status_code, "evil.example" in page.text.partition("<main")[2].partition("</main>")[0]) == (200, False)


def test_hostile_text_is_escaped_in_forms_errors_and_records(app, admin):
    hostile = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
    asked = admin.post("/act/queue.pause", data={"queue": "emails", "why": hostile + "x" * 1000})
    refused = admin.get("/act/queue.pause", params={"queue": hostile})
    admin.post("/act/queue.pause", data={"queue": "emails", "why": hostile})
    pages = [asked, refused, admin.get("/queues"), admin.get(f"/audit/{records(app)[0].id}"), admin.get("/audit")]
    for page in pages:
        assert "<img src=x" not in page.text
        assert "<script>alert" not in page.text
        assert "&lt;img src=x" in page.text
