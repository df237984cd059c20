"""Overview, queues, workers, guards, doctor, audit and settings as HTML: what each role sees, and no text is markup."""

import re

import pytest
from starlette.testclient import TestClient

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.core import Dashboard
from tenure.backends.records import AuditRecord, RunningJob
from tenure.definition.job import new_id
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder
from tenure.web.application import application
from tests.support.dashboard_scene import announce, count

PATHS = ("/", "/queues", "/workers", "/guards", "/doctor", "/audit", "/settings")
EVIL = "<img src=x onerror=alert(1)>"
QUOTES = "\"'><script>alert(2)</script>"


@pytest.fixture
def app(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", environment="development") as app:

        @app.job(queue="emails")
        def send(user: int) -> None: ...

        yield app


@pytest.fixture
def visit(app):
    """Gets pages as a user with this access."""
    opened = []

    def get(path, access=None, app=app):
        dashboard = Dashboard(app)
        client = TestClient(application(dashboard, lambda request: access or everything("ada")))
        opened.append((client, dashboard))
        return client.get(path)

    yield get
    for client, dashboard in opened:
        client.close()
        dashboard.close()


def text_of(response):
    assert response.status_code == 200, response.text
    return response.text


@pytest.mark.parametrize("path", PATHS)
def test_every_page_works_in_an_empty_app(visit, path):
    page = text_of(visit(path))

    assert page.count("<h1") == 1
    assert "style=" not in page
    assert "<script>" not in page


@pytest.mark.parametrize("url", ["memory://", "sync://"])
@pytest.mark.parametrize("path", PATHS)
def test_every_page_works_without_the_parts_of_a_database(visit, path, url):
    with Tenure(url, environment="development") as app:
        text_of(visit(path, app=app))


def test_missing_parts_say_what_to_set(visit):
    with Tenure("sync://", environment="development") as app:
        assert "This backend does not know its workers" in text_of(visit("/workers", app=app))
        assert "This backend keeps no audit log" in text_of(visit("/audit", app=app))


@pytest.mark.parametrize("path", PATHS)
def test_no_text_of_a_job_a_worker_or_a_user_becomes_markup(app, visit, path):
    for evil in (EVIL, QUOTES):
        handler, queue = f"handler {evil}", f"queue {evil}"
        count(app, queue, handler, done=3, failed=1, dead=20)
        app.guards.pause(queue, f"reason {evil}")
        announce(
            *(app, f"host {evil}:7:x", queue), silent=20,
            running=(RunningJob(id=f"id {evil}", handler=handler, name=evil, queue=queue, lane=evil, started_at=1),),
        )  # fmt: skip
        app.guards.drain_worker(f"host {evil}:7:x", f"reason {evil}")
        app.guards.store().change([take_guards([ConcurrencyLimit(f"lock:{evil}")], Holder(f"holder {evil}", 1, 60.0))])
        app.parts().audit.save(
            AuditRecord(
                id=new_id(),
                at=app.clock.now(),
                actor=evil,
                action=f"do {evil}",
                target=evil,
                why=evil,
                origin=evil,
                state=evil,
                counts={evil: 1},
                error=evil,
            )
        )

    page = text_of(visit(path))

    assert "<img" not in page
    assert "<script>" not in page
    assert "onerror=alert(1)>" not in page


@pytest.mark.parametrize("path", ["/queues", "/workers", "/guards"])
def test_control_characters_are_shown_as_escapes(app, visit, path):
    app.guards.pause("emails\x1b[2J", "see\x1b]0;x\x07")
    announce(app, "host\x1b[2J:7:x", "emails\x1b[2J")

    page = text_of(visit(path))

    assert "\x1b" not in re.sub(r"%1B", "", page)
    assert "\\x1b[2J" in page


def test_the_overview_links_every_number_to_its_jobs(app, visit):
    app.define("send", {"user": 1}).dispatch()
    announce(app, "app-1:7:x", "emails")

    page = text_of(visit("/"))

    assert 'href="/jobs?state=ready"' in page
    assert 'href="/jobs?state=ready&amp;queue=emails"' in page
    assert "Nothing needs attention" in page or "Needs attention" in page
    assert "a value for each 5" in page


def test_a_new_app_is_shown_its_first_steps(visit):
    assert "Three steps to the first job" in text_of(visit("/"))


def test_operators_get_buttons_and_viewers_none(app, visit):
    app.define("send", {"user": 1}).dispatch()
    announce(app, "app-1:7:x", "emails")
    app.guards.store().change([take_guards([ConcurrencyLimit("lock:a")], Holder("job", 1, 60.0))])
    buttons = {
        "/queues": "/act/queue.pause?queue=emails&amp;back=%2Fqueues",
        "/workers": "/act/worker.drain?worker=app-1%3A7%3Ax&amp;back=%2Fworkers",
        "/guards": "/act/guard.reset?key=lock%3Aa&amp;back=%2Fguards",
    }

    for path, button in buttons.items():
        assert button.replace("&amp;", "&") in text_of(visit(path)).replace("&amp;", "&")
        assert "/act/" not in text_of(visit(path, Access(user="eve")))


def test_a_paused_queue_offers_to_resume_it(app, visit):
    app.define("send", {"user": 1}).dispatch()
    app.guards.pause("emails", "migration")

    assert "/act/queue.resume?queue=emails" in text_of(visit("/queues"))
    assert "/act/queue.resume?queue=emails" in text_of(visit("/"))


def test_limited_users_see_only_their_queues(app, visit):
    app.define("send", {"user": 1}).dispatch()
    app.define("send", {"user": 1}).queue("invoices").dispatch()
    limited = Access(user="max", queues=("emails",))

    for path in ("/", "/queues"):
        page = text_of(visit(path, limited))
        assert "emails" in page
        assert "invoices" not in page
    assert [visit(path, limited).status_code for path in ("/guards", "/doctor", "/audit", "/settings")] == [403] * 4


@pytest.mark.parametrize(
    "address",
    ["/?window=2h", "/queues?window=", "/guards?kind=door", "/audit?since=yesterday", "/doctor?again=perhaps"],
)
def test_a_wrong_address_is_told_and_never_an_error_of_the_server(visit, address):
    assert visit(address).status_code == (200 if address.endswith("=") else 400)


def test_the_settings_say_where_values_came_from_without_secrets(visit):
    with Tenure("memory://", environment="development", mail={"host": "smtp", "password": "hunter2"}) as app:
        page = text_of(visit("/settings", app=app))

    assert "hunter2" not in page
    assert "mail.password" in page
    assert "arguments" in page
