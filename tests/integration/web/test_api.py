"""The JSON API: the same queries, commands and rights as the pages, and its description."""

import re

import msgspec
import pytest
from starlette.testclient import TestClient

from tenure.app.dashboard.access import ACTIONS
from tenure.app.dashboard.catalogue import BY_ACTION
from tenure.app.dashboard.queues import QueuesPage
from tenure.web.openapi import describe_api, model_of
from tenure.web.pages import PAGES
from tests.support.web_app import OWN, TOKEN, browser_of, sign_in


@pytest.fixture
def program(app, opened):
    """A client with a token, as a program sends it: without an origin and without cookies."""
    return TestClient(opened(app), headers={"authorization": f"Bearer {TOKEN}"})


def records(app):
    return app.parts().audit.page(limit=10)


class TestReading:
    def test_a_page_is_the_model_of_the_core(self, program):
        answer = program.get("/api/queues?window=24h")

        model = msgspec.json.decode(answer.content, type=QueuesPage)
        assert answer.headers["content-type"] == "application/json"
        assert model.window == "24h"
        assert [(row.figures.name, row.figures.ready) for row in model.queues if row.figures.ready] == [("emails", 3)]

    @pytest.mark.parametrize(
        "page", [page for page in PAGES if page.group or not page.template], ids=lambda page: page.key
    )
    def test_every_page_answers_with_its_model(self, app, admin, page):
        path = "/overview" if page.path == "/" else page.path

        answer = admin.get(f"/api{path}")

        assert answer.status_code == 200
        assert msgspec.json.decode(answer.content, type=model_of(page.query)) is not None

    def test_one_job_is_read_by_its_id(self, app, admin):
        id = next(iter(app.jobs.find())).id

        assert admin.get(f"/api/jobs/{id}").json()["payload"] == {"user": 0}

    @pytest.mark.parametrize(
        ("path", "status", "words"),
        [
            ("/api/jobs/unknown", 404, "unknown"),
            ("/api/queues?window=9h", 400, "window"),
            ("/api/queues?windw=1h", 400, "windw"),
            ("/api/nothing", 404, ""),
            ("/api/actions/unknown", 404, "unknown"),
        ],
    )
    def test_an_error_is_an_object_with_a_sentence(self, admin, path, status, words):
        answer = admin.get(path)

        assert answer.status_code == status
        assert words in answer.json()["message"]


class TestActing:
    def test_an_action_returns_its_audit_record(self, app, program):
        answer = program.post("/api/act/queue.pause", json={"queue": "emails", "why": "migration"})

        assert answer.status_code == 200
        assert (answer.json()["actor"], answer.json()["counts"]) == ("ci", {"paused": 1})
        assert app.guards.paused("emails")["emails"].reason == "migration"
        assert [(each.origin, each.why) for each in records(app)] == [("api", "migration")]
        assert answer.json()["state"] == "done"
        assert program.get(f"/api/actions/{answer.json()['id']}").json() == answer.json()

    def test_a_dry_run_tells_what_would_be_done(self, app, program):
        answer = program.post("/api/act/queue.pause?dry_run=1", json={"queue": "emails"})

        assert answer.json()["question"] == "Pause queue emails?"
        assert (app.guards.paused("emails"), records(app)) == ({}, [])

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [
            ("/api/act/queue.pause", b'{"queue": "emails", "force": true}', 400),
            ("/api/act/queue.pause", b'{"queue": 7}', 400),
            ("/api/act/queue.pause", b"{}", 400),
            ("/api/act/queue.pause", b"[]", 400),
            ("/api/act/queue.pause", b"\xff", 400),
            ("/api/act/queue.pause", b'{"queue": "emails", "why": ["x"]}', 400),
            ("/api/act/queue.pause", b'{"queue": "nowhere"}', 409),
            ("/api/act/queue.stop", b"{}", 404),
            ("/api/act/queue.resume", b'{"queue": "emails"}', 403),
        ],
    )
    def test_bad_input_is_refused_and_nothing_is_done(self, app, program, path, body, status):
        answer = program.post(path, content=body)

        assert answer.status_code == status
        assert answer.json()["message"]
        assert (app.guards.paused("emails"), records(app)) == ({}, [])

    def test_a_request_that_is_too_large_is_refused(self, app, program):
        answer = program.post("/api/act/queue.pause", content=b" " * 1_100_000)

        assert answer.status_code == 413
        assert records(app) == []


class TestAccess:
    @pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer guessed"}, {"authorization": "Basic eDp5"}])
    def test_without_a_token_nothing_is_told(self, app, opened, headers):
        answer = TestClient(opened(app), headers=headers).get("/api/queues")

        assert answer.status_code == 401
        assert "emails" not in answer.text

    def test_a_session_reads_the_api_too(self, app, opened):
        browser = browser_of(opened(app))
        sign_in(browser)

        assert browser.get("/api/queues").status_code == 200

    def test_another_site_cannot_act_with_the_session_of_a_user(self, app, opened):
        browser = browser_of(opened(app))
        sign_in(browser)

        refused = browser.post(
            "/api/act/queue.pause", json={"queue": "emails"}, headers={"origin": "https://evil.example"}
        )
        allowed = browser.post("/api/act/queue.pause", json={"queue": "emails"}, headers={"origin": OWN})

        assert (refused.status_code, allowed.status_code) == (403, 200)

    def test_a_user_of_some_queues_sees_only_those(self, app, opened):
        browser = browser_of(opened(app))
        sign_in(browser, "vera")

        assert [row["figures"]["name"] for row in browser.get("/api/queues").json()["queues"]] == ["emails"]
        assert browser.get("/api/guards").status_code == 403


class TestDescription:
    def test_it_names_every_page_and_every_action(self, admin):
        paths = admin.get("/api/openapi.json").json()["paths"]

        assert {f"/api/act/{action}" for action in BY_ACTION} <= set(paths)
        assert {re.sub(":path", "", f"/api{page.path}") for page in PAGES if page.path != "/"} <= set(paths)

    def test_all_its_references_lead_somewhere(self):
        document = describe_api()

        references = set(re.findall(r'"#/components/schemas/([^"]+)"', msgspec.json.encode(document).decode()))
        assert references <= set(document["components"]["schemas"])
        assert "JobsPage" in references

    def test_every_action_of_the_rights_is_a_command(self):
        assert set(ACTIONS) - set(BY_ACTION) == {"bulk.stop", "dead.export"}
