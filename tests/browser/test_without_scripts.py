"""Without JavaScript: reading, filtering, pages, preferences and single actions work with links and forms."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.test_actions import last_record
from tests.browser.test_every_page import job_in, look, places
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor


@pytest.fixture
def looking(visit: Visit) -> Visitor:
    return visit(scripts=False)


def test_every_page_can_be_read(shop_on: Shop, looking: Visitor) -> None:
    for place in places(shop_on):
        look(looking, place)


def test_jobs_are_filtered_and_pages_turned(looking: Visitor) -> None:
    looking.open("/jobs")
    looking.page.get_by_label("Filter jobs").last.fill("queue:images state:ready")
    looking.page.keyboard.press("Enter")
    looking.page.wait_for_url("**/jobs?*queue=images*")
    expect(looking.main).to_contain_text("1 to 50 of")
    looking.page.get_by_role("link", name="Older").click()
    expect(looking.main).to_contain_text("51 to 100 of")
    looking.page.get_by_role("link", name="Remove queue: images").click()
    expect(looking.main).to_contain_text("send_receipt")


def test_a_queue_is_paused_and_the_toast_undoes_it(shop_on: Shop, looking: Visitor) -> None:
    looking.open("/queues")
    row = looking.page.get_by_role("row").filter(has_text="emails")
    row.get_by_role("link", name="Pause").click()
    looking.page.get_by_label("Why").fill("the mail server is away")
    looking.page.get_by_role("button", name="Pause").click()
    expect(looking.page.locator(".toast")).to_contain_text("emails is paused")
    assert list(shop_on.app.guards.paused("emails")) == ["emails"]
    looking.page.get_by_role("button", name="Undo").click()
    expect(looking.page.locator(".toast")).to_contain_text("emails is resumed")
    assert shop_on.app.guards.paused("emails") == {}


def test_a_job_is_retried(shop_on: Shop, looking: Visitor) -> None:
    dead = job_in(shop_on, "dead", "images")
    looking.open(f"/jobs/{dead}")
    looking.page.get_by_role("link", name="Retry", exact=True).first.click()
    looking.page.get_by_role("button", name="Retry").click()
    expect(looking.page.locator(".toast")).to_contain_text("replayed")
    assert shop_on.app.jobs.get(dead).state == "ready"
    assert (last_record(shop_on).action, last_record(shop_on).target) == ("jobs.retry", dead)


def test_selected_jobs_are_cancelled(shop_on: Shop, looking: Visitor) -> None:
    looking.open("/jobs?queue=emails&state=delayed")
    looking.page.get_by_role("checkbox", name="Select send_welcome").first.check()
    looking.page.get_by_role("button", name="Cancel").click()
    looking.page.get_by_role("button", name="Cancel").click()
    expect(looking.page.locator(".toast")).to_contain_text("cancelled")
    assert last_record(shop_on).counts == {"cancelled": 1}


def test_a_theme_is_chosen(looking: Visitor) -> None:
    looking.open("/queues")
    looking.page.locator("#theme > summary").click()
    looking.page.get_by_role("button", name="Dark").click()
    expect(looking.page.locator("html")).to_have_attribute("data-theme", "dark")
    looking.open("/jobs")
    expect(looking.page.locator("html")).to_have_attribute("data-theme", "dark")
