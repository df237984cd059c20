"""What users do with single jobs, in the browser: retry, edit, cancel, reschedule, delete."""

import json

from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.test_actions import confirm, last_record
from tests.browser.test_every_page import job_in
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor


def choose(looking: Visitor, name: str) -> None:
    """Open the menu of the job, and choose an action in it."""
    looking.page.locator("#more > summary").click()
    looking.page.get_by_role("main").get_by_role("link", name=name, exact=True).last.click()


def test_a_dead_job_is_retried(shop_on: Shop, visit: Visit) -> None:
    dead = job_in(shop_on, "dead", "invoices")
    looking = visit()
    looking.open(f"/jobs/{dead}")
    looking.page.get_by_role("link", name="Retry", exact=True).first.click()
    confirm(looking, "Retry")
    expect(looking.page.locator(".toast").get_by_text("1 job was replayed")).to_be_visible()
    assert shop_on.app.jobs.get(dead).state == "ready"
    assert (last_record(shop_on).action, last_record(shop_on).target) == ("jobs.retry", dead)


def test_a_job_runs_again_with_other_arguments(shop_on: Shop, visit: Visit) -> None:
    dead = job_in(shop_on, "dead", "invoices")
    before = shop_on.app.jobs.get(dead)
    looking = visit()
    looking.open(f"/jobs/{dead}")
    choose(looking, "Retry with edits")
    payload = json.loads(looking.page.get_by_label("Payload").input_value())
    assert payload["card_token"] == "***"
    looking.page.get_by_label("Payload").fill(json.dumps({**payload, "amount": "10.00"}))
    looking.page.get_by_label("Why").fill("the customer paid a part")
    looking.page.get_by_role("button", name="Run the new job").click()
    expect(looking.page.locator(".toast").get_by_text("A new job with the edited")).to_be_visible()
    assert shop_on.app.jobs.get(dead).state == "dead"
    record = last_record(shop_on)
    assert (record.action, record.why) == ("jobs.edit", "the customer paid a part")
    made = shop_on.app.jobs.get(max(job.id for job in shop_on.app.jobs.find(state="ready", queue="invoices")))
    assert (made.retry_of, made.payload["amount"]) == (dead, "10.00")
    lease = next(each for each in shop_on.app.backend.lease(["invoices"], limit=100, seconds=60) if each.id == made.id)
    opened = json.loads(bytes(shop_on.app.open_backend().wire.open(lease.body, "invoices").payload))
    assert opened["card_token"].startswith("tok_"), "what the user did not see has kept its value"
    assert opened["order"] == before.payload["order"]


def test_a_running_job_is_asked_to_stop(shop_on: Shop, visit: Visit) -> None:
    running = job_in(shop_on, "leased", "imports")
    looking = visit()
    looking.open(f"/jobs/{running}")
    looking.page.get_by_role("link", name="Cancel job").first.click()
    confirm(looking, "Cancel")
    expect(looking.page.locator(".toast").get_by_text("1 job was asked to stop")).to_be_visible()
    assert shop_on.app.jobs.get(running).cancel_asked
    assert (last_record(shop_on).action, last_record(shop_on).counts) == ("jobs.cancel", {"asked": 1})


def test_a_waiting_job_is_rescheduled(shop_on: Shop, visit: Visit) -> None:
    delayed = job_in(shop_on, "delayed", "emails")
    looking = visit()
    looking.open(f"/jobs/{delayed}")
    choose(looking, "Reschedule")
    looking.page.get_by_label("After").fill("3h")
    looking.page.get_by_role("button", name="Go on").click()
    looking.page.get_by_label("Why").fill("not before the evening")
    looking.page.get_by_role("button", name="Reschedule").click()
    expect(looking.page.locator(".toast").get_by_text("1 job has a new start")).to_be_visible()
    info = shop_on.app.jobs.get(delayed)
    assert (info.due_at.timestamp() * 1_000_000 - shop_on.clock.now()) / 3_600_000_000 == 3
    assert (last_record(shop_on).action, last_record(shop_on).why) == ("jobs.reschedule", "not before the evening")


def test_an_ended_job_is_deleted(shop_on: Shop, visit: Visit) -> None:
    done = job_in(shop_on, "done", "webhooks")
    looking = visit()
    looking.open(f"/jobs/{done}")
    choose(looking, "Delete")
    confirm(looking, "Delete", "it was a test")
    expect(looking.page.locator(".toast").get_by_text("1 job was deleted")).to_be_visible()
    assert shop_on.app.parts().jobs.find(done) is None
    assert (last_record(shop_on).action, last_record(shop_on).target) == ("jobs.delete", done)


def test_a_job_is_compared_with_another(shop_on: Shop, visit: Visit) -> None:
    done, dead = job_in(shop_on, "done", "webhooks"), job_in(shop_on, "dead", "invoices")
    looking = visit()
    looking.open(f"/jobs/{done}")
    looking.page.get_by_role("link", name="Compare").click()
    looking.page.get_by_label("Compare deliver_webhook with").fill(dead[-8:])
    looking.page.get_by_role("button", name="Compare").click()
    expect(looking.page.get_by_role("heading", name="Differences")).to_be_visible()
    expect(looking.main).to_contain_text("charge_order")
