"""What each role sees and may do: what is left out of the page is refused by the server too."""

import pytest
from playwright.sync_api import expect

from tenure.app.dashboard.access import Access
from tests.browser.conftest import Visit
from tests.browser.test_actions import last_record
from tests.browser.test_every_page import job_in
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor, page_text


@pytest.fixture
def users() -> dict[str, Access]:
    return {
        "viewer": Access(user="support", role="viewer"),
        "operator": Access(user="oncall", role="operator"),
        "admin": Access(user="ada", role="admin"),
        "limited": Access(user="lee", role="operator", queues=("emails",)),
        "pauser": Access(user="pia", role="operator", actions=frozenset({"queue.pause"})),
    }


def post(looking: Visitor, path: str, fields: dict[str, str]) -> int:
    """Send a form from the page that is open, as a script of a user would; the status of the answer."""
    script = """async ([path, fields]) => (await fetch(path, {
        method: "POST", body: new URLSearchParams(fields), redirect: "manual" })).status"""
    status: int = looking.page.evaluate(script, [path, fields])
    return status


def entries(looking: Visitor) -> list[str]:
    links = looking.page.get_by_role("navigation", name="Pages").get_by_role("link")
    return [text.split("\n")[0].strip() for text in links.all_inner_texts()]


def test_a_viewer_reads_and_changes_nothing(shop_on: Shop, visit: Visit) -> None:
    looking = visit("viewer")
    looking.open("/queues")
    assert not {"Audit", "Settings"} & set(entries(looking))
    for path in ("/queues", "/workers", "/guards", "/jobs", f"/jobs/{job_in(shop_on, 'dead', 'invoices')}"):
        looking.open(path)
        main = looking.page.get_by_role("main")
        for name in ("Pause", "Drain", "Reset", "Retry", "Cancel job", "Delete"):
            assert main.get_by_role("link", name=name, exact=True).count() == 0, (path, name)
            assert main.get_by_role("button", name=name, exact=True).count() == 0, (path, name)
        assert main.get_by_role("checkbox").count() == 0, path
    before = last_record(shop_on)
    assert post(looking, "/act/queue.pause", {"queue": "emails", "why": "no", "back": "/"}) == 403
    assert looking.open("/act/queue.pause?queue=emails&back=%2F").status == 403
    assert looking.open("/audit").status == 403
    assert looking.open("/settings").status == 403
    assert shop_on.app.guards.paused("emails") == {}
    assert last_record(shop_on) == before


def test_an_operator_acts_but_does_not_delete(shop_on: Shop, visit: Visit) -> None:
    done = job_in(shop_on, "done", "webhooks")
    looking = visit("operator")
    looking.open(f"/jobs/{done}")
    looking.page.locator("#more > summary").click()
    expect(looking.main.get_by_role("link", name="Reschedule")).to_be_visible()
    expect(looking.main.get_by_role("link", name="Delete")).to_have_count(0)
    assert {"Audit"} <= set(entries(looking))
    assert "Settings" not in entries(looking)
    assert post(looking, "/act/jobs.delete", {"ids": done, "why": "no", "back": "/"}) == 403
    assert looking.open("/settings").status == 403
    assert shop_on.app.jobs.get(done).state == "done"


def test_an_admin_sees_the_settings_without_secrets(shop_on: Shop, visit: Visit) -> None:
    looking = visit("admin")
    assert looking.open("/settings").status == 200
    assert "breaker_cooldown" in page_text(looking.page)


def test_a_user_of_some_queues_sees_no_other(shop_on: Shop, visit: Visit) -> None:
    looking = visit("limited")
    looking.open("/queues")
    text = page_text(looking.page)
    assert "emails" in text
    assert not [queue for queue in ("images", "imports", "invoices", "webhooks") if queue in text]
    looking.open("/jobs")
    assert "send_receipt" in page_text(looking.page)
    for path in ("/", "/jobs", "/jobs?queue=images", "/dead", "/workers"):
        looking.open(path)
        text = looking.page.content()
        shown = [name for name in ("resize_image", "charge_order", "deliver_webhook", "webhooks") if name in text]
        assert shown == [], path
    other = job_in(shop_on, "dead", "invoices")
    assert looking.open(f"/jobs/{other}").status in (403, 404)
    assert looking.open("/guards").status == 403
    assert post(looking, "/act/queue.pause", {"queue": "images", "why": "no", "back": "/"}) == 403
    post(looking, "/act/jobs.retry", {"ids": other, "back": "/"})
    assert shop_on.app.jobs.get(other).state == "dead"
    assert shop_on.app.guards.paused("images") == {}


def test_a_user_with_some_actions_has_no_other(shop_on: Shop, visit: Visit) -> None:
    looking = visit("pauser")
    looking.open("/queues")
    row = looking.page.get_by_role("row").filter(has_text="emails")
    expect(row.get_by_role("link", name="Pause")).to_be_visible()
    assert row.get_by_role("link", name="Drain").count() == 0
    assert post(looking, "/act/queue.drain", {"queue": "emails", "why": "no", "back": "/"}) == 403
    assert shop_on.app.guards.paused("emails") == {}


def test_a_user_who_is_not_known_sees_nothing(visit: Visit) -> None:
    looking = visit("stranger")
    for path in ("/", "/jobs", "/queues", "/settings"):
        response = looking.open(path)
        assert response.status in (401, 403), path
        assert "send_receipt" not in looking.page.content()
