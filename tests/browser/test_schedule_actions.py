"""Schedules in the browser: pause, resume and run now."""

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Visit
from tests.browser.test_actions import confirm, last_record
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor


def panel(looking: Visitor, name: str) -> Locator:
    looking.open(f"/schedules?name={name}")
    return looking.page.get_by_role("complementary", name=name)


def test_a_schedule_is_paused_and_resumed(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    panel(looking, "clean-carts").get_by_role("link", name="Pause").click()
    confirm(looking, "Pause", "the shop is closed")
    expect(looking.page.locator(".toast").get_by_text("clean-carts")).to_be_visible()
    ledger = shop_on.app.cron.ledger
    assert "clean-carts" in ledger.paused()
    assert (last_record(shop_on).action, last_record(shop_on).why) == ("schedule.pause", "the shop is closed")

    panel(looking, "clean-carts").get_by_role("link", name="Resume").click()
    confirm(looking, "Resume")
    expect(looking.page.locator(".toast").get_by_text("clean-carts")).to_be_visible()
    assert "clean-carts" not in ledger.paused()
    assert last_record(shop_on).action == "schedule.resume"


def test_a_schedule_runs_now_once(shop_on: Shop, visit: Visit) -> None:
    before = len(shop_on.app.cron.history("fetch-prices", limit=100))
    looking = visit()
    panel(looking, "fetch-prices").get_by_role("link", name="Run now").click()
    confirm(looking, "Run")
    expect(looking.page.locator(".toast").get_by_text("fetch-prices")).to_be_visible()
    assert len(shop_on.app.cron.history("fetch-prices", limit=100)) == before + 1
    assert (last_record(shop_on).action, last_record(shop_on).target) == ("schedule.run", "fetch-prices")
    newest = shop_on.app.cron.history("fetch-prices", limit=1)[0]
    assert shop_on.app.jobs.get(newest.id).handler == "fetch_prices"


def test_all_schedules_are_paused(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/schedules")
    looking.page.get_by_role("link", name="Pause all").click()
    confirm(looking, "Pause", "maintenance")
    expect(looking.main).to_contain_text("All schedules are paused")
    assert "" in shop_on.app.cron.ledger.paused()
