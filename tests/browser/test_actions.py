"""Every action works in the browser: through its confirmation, with its effect in the backend and its audit record."""

import pytest
from playwright.sync_api import Locator, expect

from tenure.backends.records import AuditRecord
from tests.browser.conftest import Visit
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor

EVERYWHERE = ["sqlite", "postgresql", "mariadb", "redis", "beanstalk"]


def last_record(shop: Shop) -> AuditRecord:
    audit = shop.app.parts().audit
    assert audit is not None
    return audit.page(limit=1)[0]


def row(looking: Visitor, name: str) -> Locator:
    return looking.page.get_by_role("row").filter(has=looking.page.get_by_text(name, exact=True))


def confirm(looking: Visitor, button: str, why: str | None = None, typed: str | None = None) -> None:
    """Fill in the dialog, and press its button."""
    dialog = looking.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    if why is not None:
        dialog.get_by_label("Why").fill(why)
    if typed is not None:
        dialog.get_by_label("Type").fill(typed)
    dialog.get_by_role("button", name=button).click()


@pytest.mark.parametrize("backend", EVERYWHERE, indirect=True)
def test_a_queue_is_paused_and_the_toast_undoes_it(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/queues")
    row(looking, "emails").get_by_role("link", name="Pause").click()
    confirm(looking, "Pause", "the mail server is away")
    expect(looking.page.locator(".toast").get_by_text("emails is paused: no job starts")).to_be_visible()
    assert shop_on.app.guards.paused("emails")["emails"].reason == "the mail server is away"
    record = last_record(shop_on)
    assert (record.action, record.target, record.why) == ("queue.pause", "emails", "the mail server is away")
    assert (record.actor, record.state, record.origin) == ("ops", "done", "web")

    looking.page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(looking.page.locator(".toast").get_by_text("emails is resumed")).to_be_visible()
    assert shop_on.app.guards.paused("emails") == {}
    assert last_record(shop_on).action == "queue.resume"


def test_a_paused_queue_is_resumed(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/queues")
    row(looking, "imports").get_by_role("link", name="Resume").click()
    confirm(looking, "Resume")
    expect(looking.page.locator(".toast").get_by_text("imports is resumed")).to_be_visible()
    assert shop_on.app.guards.paused("imports") == {}
    assert (last_record(shop_on).action, last_record(shop_on).target) == ("queue.resume", "imports")


def test_a_queue_is_drained(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/queues")
    row(looking, "images").locator("summary").click()
    row(looking, "images").get_by_role("link", name="Drain").click()
    confirm(looking, "Drain", "the disk is replaced")
    expect(looking.page.locator(".toast").get_by_text("images is draining")).to_be_visible()
    assert shop_on.app.guards.paused("images")["images"].reason == "the disk is replaced"
    assert last_record(shop_on).action == "queue.drain"


def test_a_confirmation_can_be_left(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/queues")
    before = last_record(shop_on)
    row(looking, "emails").get_by_role("link", name="Pause").click()
    expect(looking.page.get_by_label("Why")).to_be_focused()
    looking.page.keyboard.press("Escape")
    expect(looking.page.get_by_role("dialog")).not_to_be_visible()
    assert shop_on.app.guards.paused("emails") == {}
    assert last_record(shop_on) == before


def test_an_action_without_a_reason_is_asked_again_with_what_was_typed(shop_on: Shop, visit: Visit) -> None:
    looking = visit(scripts=False)  # a browser with scripts does not send the form before the field is filled
    looking.open("/act/queue.pause?queue=emails&back=%2Fqueues")
    looking.page.get_by_label("Why").evaluate("field => field.removeAttribute('required')")
    looking.page.get_by_role("button", name="Pause").click()
    expect(looking.page.get_by_text("Say why")).to_be_visible()
    assert shop_on.app.guards.paused("emails") == {}


def test_a_worker_is_drained_and_resumed(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/workers")
    card = looking.page.get_by_role("region", name="edge-1")
    card.get_by_role("link", name="Drain").click()
    confirm(looking, "Drain", "the host is replaced")
    worker = next(each.id for each in shop_on.app.parts().workers.alive() if each.host == "edge-1")
    expect(looking.page.locator(".toast").get_by_text("is draining")).to_be_visible()
    assert shop_on.app.guards.draining(worker)[worker].reason == "the host is replaced"
    assert (last_record(shop_on).action, last_record(shop_on).target) == ("worker.drain", worker)

    card.get_by_role("link", name="Resume").click()
    confirm(looking, "Resume")
    expect(looking.page.locator(".toast").get_by_text("is resumed")).to_be_visible()
    assert shop_on.app.guards.draining(worker) == {}
    assert last_record(shop_on).action == "worker.resume"


def test_a_guard_is_reset_and_its_jobs_are_ready(shop_on: Shop, visit: Visit) -> None:
    parked = shop_on.app.parts().queues.counts()["invoices"]["parked"]
    looking = visit()
    looking.open("/guards")
    row(looking, "payments").get_by_role("link", name="Reset").click()
    confirm(looking, "Reset", "the gateway is back")
    expect(looking.page.locator(".toast").get_by_text("is reset")).to_be_visible()
    assert shop_on.app.guards.breaker("payments").state() == "closed"
    assert parked > 0
    assert shop_on.app.parts().queues.counts()["invoices"]["parked"] == 0
    record = last_record(shop_on)
    assert (record.action, record.target, record.why) == ("guard.reset", "breaker:payments", "the gateway is back")
