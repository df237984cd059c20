"""Dead letters in the browser: dry run, trial, the rest, export, delete."""

import json

from playwright.sync_api import expect

from tenure.backends.messages import Abandon, Ack
from tests.browser.conftest import Visit
from tests.browser.test_actions import confirm, last_record
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor


def open_group(visit: Visit, name: str) -> Visitor:
    looking = visit()
    looking.open("/dead")
    looking.main.get_by_role("link", name=name).first.click()
    expect(looking.page.get_by_role("heading", name="Replay")).to_be_visible()
    return looking


def dead(shop: Shop, handler: str) -> list[str]:
    letters = shop.app.parts().dead_letters
    assert letters is not None
    return [letter.id for letter in letters.page(limit=1000) if letter.handler == handler]


def run_replayed(shop: Shop, queue: str, *, well: bool) -> int:
    """A worker takes what is ready in the queue; how many."""
    leases = shop.app.backend.lease([queue], limit=1000, seconds=60)
    if well:
        shop.app.backend.ack([Ack(lease=lease, output="1") for lease in leases])
    else:
        shop.app.backend.abandon([Abandon(lease=lease, reason="retries_exhausted") for lease in leases])
    return len(leases)


def start_trial(looking: Visitor, count: int) -> None:
    looking.page.get_by_label("How many first").fill(str(count))
    looking.page.locator("aside").get_by_label("Why").fill("the feed is back")
    looking.page.get_by_role("button", name="trial").click()
    expect(looking.page.locator(".toast").get_by_text("tried")).to_be_visible()


def test_letters_are_tried_first_and_the_rest_follows(shop_on: Shop, visit: Visit) -> None:
    letters = dead(shop_on, "fetch_prices")
    run_replayed(shop_on, "webhooks", well=True)
    looking = open_group(visit, "HTTPStatusError")
    panel = looking.page.locator("aside").filter(has_text="Dry run")
    expect(panel).to_contain_text("payload fits the handler")
    start_trial(looking, 1)
    assert len(dead(shop_on, "fetch_prices")) == len(letters) - 1
    record = next(each for each in shop_on.app.parts().audit.page(limit=5) if each.action == "dead.replay")
    assert (record.why, record.counts) == ("the feed is back", {"replayed": 1})
    expect(looking.page.get_by_role("link", name="Replay the other")).to_have_count(0)

    assert run_replayed(shop_on, "webhooks", well=True) == 1
    looking.page.reload()
    looking.page.get_by_role("link", name="Replay the other").click()
    confirm(looking, "Replay", "the trial went well")
    expect(looking.page.locator(".toast").get_by_text("ready again")).to_be_visible()
    assert dead(shop_on, "fetch_prices") == []
    assert (last_record(shop_on).action, last_record(shop_on).counts) == ("dead.replay", {"replayed": len(letters) - 1})


def test_the_rest_is_not_offered_when_the_trial_failed(shop_on: Shop, visit: Visit) -> None:
    run_replayed(shop_on, "webhooks", well=True)
    looking = open_group(visit, "HTTPStatusError")
    start_trial(looking, 2)
    assert run_replayed(shop_on, "webhooks", well=False) == 2
    looking.page.reload()
    expect(looking.page.locator("aside").filter(has_text="Trial")).to_contain_text("died again")
    expect(looking.page.get_by_role("link", name="Replay the other")).to_have_count(0)
    expect(looking.page.get_by_role("button", name="Start another trial")).to_be_visible()


def test_letters_are_exported_without_secrets(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/dead?handler=charge_order")
    with looking.page.expect_download() as download:
        looking.page.get_by_role("link", name="Export").click()
    lines = download.value.path().read_text().splitlines()
    assert len(lines) == len(dead(shop_on, "charge_order"))
    assert "tok_" not in "".join(lines)
    assert all(json.loads(line)["handler"] == "charge_order" for line in lines)
    assert last_record(shop_on).action == "dead.export"


def test_selected_letters_are_deleted(shop_on: Shop, visit: Visit) -> None:
    letters = dead(shop_on, "resize_image")
    looking = visit()
    looking.open("/dead?by=none&handler=resize_image")
    looking.page.get_by_role("checkbox", name="Select resize_image").first.check()
    looking.page.get_by_role("button", name="Delete 1").click()
    confirm(looking, "Delete", "not a picture")
    expect(looking.page.locator(".toast").get_by_text("deleted")).to_be_visible()
    assert len(dead(shop_on, "resize_image")) == len(letters) - 1
    assert (last_record(shop_on).action, last_record(shop_on).why) == ("dead.delete", "not a picture")
