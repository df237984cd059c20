"""The pages of jobs as HTML: escaped, complete without scripts, and within the role of the user."""

import html
import re

import pytest
from starlette.testclient import TestClient

from tenure import Tenure
from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Dashboard
from tenure.web.application import application
from tenure.wire.signing import new_key

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e"


@pytest.fixture
def app(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", keys=[new_key("k1").dump()]) as app:
        yield app


@pytest.fixture
def browse(app):
    dashboard, clients = Dashboard(app), []

    def browse(role="admin", **access):
        user = Access(user="ann", role=role, **access)
        clients.append(TestClient(application(dashboard, lambda request: user), follow_redirects=False))
        return clients[-1]

    yield browse
    dashboard.close()


@pytest.fixture
def jobs(app):
    """A job that is done and one that is dead, whose texts are hostile wherever a user can put text."""

    @app.job(max_retries=0)
    def work(text: str, token: str = "") -> dict[str, str]:
        if text == "fail":
            raise ValueError(HOSTILE)
        return {HOSTILE: text}

    options = {"name": HOSTILE, "tags": [HOSTILE[:20]], "meta": {HOSTILE: HOSTILE}, "idempotency_key": HOSTILE}
    done = work.using(**options).enqueue(HOSTILE, "secret").id
    dead = work.using(name=HOSTILE, then=[work.using(name=HOSTILE).build("x")]).enqueue("fail").id
    app.worker("default", burst=True).run()
    return {"done": done, "dead": dead}


def assert_harmless(page):
    text = re.sub(r'<script src="[^"]+"( defer)?></script>', "", page)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "alert(2)&gt;49" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/jobs",
        "/jobs?state=dead",
        "/jobs/{done}",
        "/jobs/{dead}",
        "/jobs/{done}/edit",
        "/jobs/{dead}/compare?with={done}",
    ],
)
def test_hostile_texts_of_jobs_are_shown_as_text(browse, jobs, path):
    answer = browse().get(path.format(**jobs))
    assert answer.status_code == 200
    assert "alert(1)" in answer.text
    assert_harmless(answer.text)


@pytest.mark.parametrize(
    "path", ["/jobs?text={0}", "/jobs?state={0}", "/jobs?{0}=x", "/jobs?q={0}", "/jobs/{0}", "/jobs?after={0}"]
)
def test_hostile_texts_of_the_address_are_shown_as_text(browse, jobs, path):
    answer = browse().get(path.format("%3Cscript%3Ealert(1)%3C/script%3E%22'"))
    assert answer.status_code in (200, 303, 400, 404)
    assert_harmless(answer.text)


def test_a_bad_filter_is_an_error_with_a_link_to_what_was_meant(browse, jobs):
    answer = browse().get("/jobs?state=ded&queue=default")
    assert answer.status_code == 400
    assert 'Did you mean <a href="/jobs?state=dead&amp;queue=default">dead</a>' in answer.text
    assert "<tbody" not in answer.text
    assert "selection-bar" not in answer.text


@pytest.mark.parametrize("size", ["0", "24", "201", "1000000", "x"])
def test_a_huge_page_is_refused(browse, jobs, size):
    assert browse().get(f"/jobs?size={size}").status_code == 400


def test_the_search_leads_to_a_job_or_a_filter(browse, jobs):
    assert browse().get("/jobs", params={"q": jobs["dead"][-8:]}).headers["location"] == f"/jobs/{jobs['dead']}"
    assert browse().get("/jobs", params={"q": "queue:default x"}).headers["location"] == "/jobs?queue=default&text=x"


def test_unknown_jobs_are_not_found(browse, jobs):
    for path in (
        "/jobs/nobody",
        "/jobs/nobody/edit",
        "/jobs/nobody/compare",
        f"/jobs/{jobs['done']}/compare?with=nobody",
    ):
        assert browse().get(path).status_code == 404
    assert browse(queues=("mail",)).get(f"/jobs/{jobs['done']}").status_code == 404


def test_a_job_whose_id_has_a_slash_has_a_page(app, browse):
    @app.job
    def work() -> None: ...

    work.using(name="x").build()
    app.enqueue(work.build().replace(id="orders/17?a#b"))
    listed = browse().get("/jobs").text
    assert 'href="/jobs/orders%2F17%3Fa%23b"' in listed
    assert "orders/17?a#b" in browse().get("/jobs/orders%2F17%3Fa%23b").text


def test_what_a_role_may_not_do_is_left_out(browse, jobs):
    viewer = browse("viewer").get(f"/jobs/{jobs['dead']}").text
    assert "jobs.retry" not in viewer
    assert "More actions" not in viewer
    assert "selection-bar" not in browse("viewer").get("/jobs").text
    operator = browse("operator").get(f"/jobs/{jobs['dead']}").text
    assert "/act/jobs.retry?" in operator
    assert "jobs.delete" not in operator
    assert f'/jobs/{jobs["dead"]}/edit"' in operator
    assert "/act/jobs.delete?" in browse("admin").get(f"/jobs/{jobs['dead']}").text
    assert browse("viewer").get(f"/jobs/{jobs['dead']}/edit").status_code == 403


def test_the_first_run_says_what_to_do(browse):
    page = html.unescape(browse().get("/jobs").text)
    assert "No jobs yet" in page
    assert "Nothing has been enqueued in jobs.db" in page
    assert 'app = Tenure("sqlite:///' in page


def test_nothing_found_offers_a_way_out(browse, jobs):
    page = html.unescape(browse().get("/jobs?state=dead&text=nowhere").text)
    assert "No job matches state:dead nowhere" in page
    assert "1 job matches without nowhere" in page


def confirmed(client, page, **fields):
    """Send the form of a page as a browser without scripts does."""
    action = html.unescape(re.search(r'<form class="confirm"[^>]* action="([^"]+)"', page)[1])
    hidden = re.findall(
        r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.partition('<form class="confirm"')[2]
    )
    given = {}
    for name, value in hidden:
        given.setdefault(name, []).append(html.unescape(value))
    return client.post(action, data={**given, **fields}, headers={"sec-fetch-site": "same-origin"})


def test_a_selection_is_retried_without_scripts(app, browse, jobs):
    client = browse("operator")
    asked = client.get(
        "/act/jobs.retry", params={"ids": [jobs["dead"]], "filter": "state=dead", "before": "1", "back": "/jobs"}
    )
    assert "Retry work" in html.unescape(asked.text)
    answer = confirmed(client, asked.text)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")
    assert app.jobs.get(jobs["dead"]).state == "ready"


def test_all_jobs_of_a_filter_are_deleted_without_scripts(app, browse, jobs):
    client = browse("admin")
    page = client.get("/jobs?state=dead").text
    assert 'name="filter" value="state=dead"' in page
    asked = client.get("/act/jobs.delete", params={"all": "1", "filter": "state=dead", "back": "/jobs?state=dead"})
    assert confirmed(client, asked.text).status_code == 400
    answer = confirmed(client, asked.text, why="no longer needed")
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=dead")
    assert app.parts().find(jobs["dead"]) is None
    assert app.parts().find(jobs["done"]) is not None


def test_a_job_gets_a_new_start_without_scripts(app, browse):
    @app.job
    def work() -> None: ...

    id = work.enqueue().id
    client = browse("operator")
    page = client.get("/jobs/reschedule", params={"ids": id, "filter": "", "before": "5", "back": "/jobs"}).text
    assert f'name="ids" value="{id}"' in page
    asked = client.get("/act/jobs.reschedule", params={"ids": id, "delay": "2h", "at": "", "back": "/jobs"})
    assert confirmed(client, asked.text, why="later").status_code == 303
    assert app.jobs.get(id).state == "delayed"


def test_a_job_runs_with_edited_arguments_without_scripts(app, browse, jobs):
    client = browse("operator")
    fields = {"id": jobs["dead"], "payload": '{"text": "better"}', "back": f"/jobs/{jobs['dead']}", "why": "typo"}
    answer = client.post("/act/jobs.edit", data=fields, headers={"sec-fetch-site": "same-origin"})
    assert answer.status_code == 303
    (new,) = app.jobs.find(state="ready")
    assert (app.jobs.get(new.id).payload["text"], app.jobs.get(new.id).retry_of) == ("better", jobs["dead"])
    refused = client.post("/act/jobs.edit", data={**fields, "payload": "{"}, headers={"sec-fetch-site": "same-origin"})
    assert refused.status_code == 409
    assert "not JSON" in refused.text
