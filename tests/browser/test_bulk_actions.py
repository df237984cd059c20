"""Actions on many jobs in the browser: selection, confirmation with a typed number, progress, stop."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tenure.app.dashboard import core
from tenure.backends.parts import JobControl
from tests.browser.conftest import Visit
from tests.browser.test_actions import confirm, last_record
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor
from tests.support.waiting import eventually

MOMENT_SECONDS = core.SAVE_INTERVAL_SECONDS
IMAGES = "/jobs?state=ready&queue=images"


def count(shop: Shop, queue: str, state: str) -> int:
    queues = shop.app.parts().queues
    assert queues is not None
    return queues.counts()[queue][state]


def select_all_that_match(looking: Visitor) -> None:
    looking.page.get_by_role("checkbox", name="Select all on the page").check()
    looking.page.get_by_role("checkbox", name="that match").check()


def test_selected_jobs_are_cancelled(shop_on: Shop, visit: Visit) -> None:
    ready = count(shop_on, "images", "ready")
    looking = visit()
    looking.open(IMAGES)
    boxes = looking.page.get_by_role("checkbox", name="Select resize_image")
    for place in range(3):
        boxes.nth(place).check()
    expect(looking.page.get_by_role("button", name="Delete 0")).to_be_disabled()
    looking.page.get_by_role("button", name="Cancel 3").click()
    confirm(looking, "Cancel 3", "wrong size")
    expect(looking.page.locator(".toast").get_by_text("3 jobs were cancelled")).to_be_visible()
    assert count(shop_on, "images", "ready") == ready - 3
    record = last_record(shop_on)
    assert (record.action, record.counts, record.total, record.why) == (
        "jobs.cancel",
        {"cancelled": 3},
        3,
        "wrong size",
    )


def test_all_jobs_that_match_are_cancelled_after_the_number_was_typed(shop_on: Shop, visit: Visit) -> None:
    ready, emails = count(shop_on, "images", "ready"), count(shop_on, "emails", "ready")
    looking = visit()
    looking.open(IMAGES)
    select_all_that_match(looking)
    looking.page.get_by_role("button", name=f"Cancel {ready}").click()
    confirm(looking, f"Cancel {ready}", "wrong size", "7")
    expect(looking.page.get_by_text(f"Type {ready} to confirm the number")).to_be_visible()
    assert count(shop_on, "images", "ready") == ready

    assert looking.page.get_by_label("Why").input_value() == "wrong size"
    looking.page.get_by_label("Type").fill(str(ready))
    looking.page.get_by_role("button", name=f"Cancel {ready}").click()
    expect(looking.page.locator(".toast").get_by_text(f"{ready} jobs were cancelled")).to_be_visible()
    assert (count(shop_on, "images", "ready"), count(shop_on, "emails", "ready")) == (0, emails)
    record = last_record(shop_on)
    assert (record.action, record.counts, record.total) == ("jobs.cancel", {"cancelled": ready}, ready)
    assert "queue:images" in record.target


class SlowControl:
    """Cancels as the control of the backend does, as slowly as on a busy server.

    After the second call the progress is due to be recorded; the third call waits until it is released.
    """

    def __init__(self, control: JobControl) -> None:
        self._control = control
        self._calls = 0
        self._started = time.monotonic()
        self.is_released = False

    def cancel(self, ids: list[str]) -> object:
        self._calls += 1
        if self._calls == 1:
            self._started = time.monotonic()
        if self._calls == 2:
            eventually(lambda: time.monotonic() - self._started > MOMENT_SECONDS)
        if self._calls == 3:
            eventually(lambda: self.is_released)
        return self._control.cancel(ids)


@pytest.fixture
def slow_control(shop_on: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowControl]:
    """An action on it goes on in the background after a moment, as it does for users."""
    monkeypatch.setattr(core, "SAVE_INTERVAL_SECONDS", MOMENT_SECONDS)
    backend = shop_on.app.backend
    control = backend.control
    assert control is not None
    slow = SlowControl(control)
    backend.control = slow  # type: ignore[assignment]
    yield slow
    slow.is_released = True
    backend.control = control


def test_a_long_action_shows_its_progress_and_can_be_stopped(
    shop_on: Shop, visit: Visit, slow_control: SlowControl
) -> None:
    job = shop_on.app.define("resize_image", {"path": "a.jpg", "width": 1}).build()
    shop_on.app.enqueue_many(job for _ in range(3000))
    ready = count(shop_on, "images", "ready")
    looking = visit()
    looking.open(IMAGES)
    select_all_that_match(looking)
    looking.page.get_by_role("button", name="Cancel").click()
    confirm(looking, "Cancel", "too many", str(ready))
    expect(looking.page.get_by_role("button", name="Stop")).to_be_visible()
    expect(looking.main).to_contain_text("1,000")
    looking.page.reload()
    looking.page.get_by_role("button", name="Stop").click()
    slow_control.is_released = True
    expect(looking.page.get_by_text("The action was stopped.")).to_be_visible()
    cancelled = ready - count(shop_on, "images", "ready")
    assert 0 < cancelled < 3000
    audit = shop_on.app.parts().audit
    assert audit is not None
    record = next(each for each in audit.page(limit=5) if each.action == "jobs.cancel")
    assert (record.state, record.counts, record.total) == ("stopped", {"cancelled": cancelled}, ready)
