"""Every page opens on every backend, shows its data, obeys the content security policy and is accessible."""

from typing import NamedTuple

import pytest

from tenure.web.pages import PAGES
from tests.browser.conftest import Visit
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import DESKTOP, NARROW, PHONE, Visitor, page_text

EVERYWHERE = ["sqlite", "postgresql", "mariadb", "redis", "beanstalk"]


class Place(NamedTuple):
    """An address, the page that it belongs to, and what a reader must find there."""

    page: str
    path: str
    texts: tuple[str, ...]


def job_in(shop: Shop, state: str, queue: str) -> str:
    """The id of a job in this state."""
    parts = shop.app.parts()
    if state == "dead":
        assert parts.dead_letters is not None
        return parts.dead_letters.page(queue=queue, limit=1)[0].id
    assert parts.jobs is not None
    return parts.jobs.page(state, queue, limit=1)[0][0].id


def places(shop: Shop) -> list[Place]:
    """Every page, with the data of the shop."""
    return [
        Place("overview", "/", ("Needs attention", "Throughput", "charge_order", "imports")),
        Place("overview", "/?window=24h", ("deliver_webhook",)),
        Place("jobs", "/jobs?state=done&queue=webhooks", ("deliver_webhook", "order ", "took")),
        Place("dead", "/dead", ("charge_order", "PaymentFailed", "resize_image", "fetch_prices")),
        Place("queues", "/queues", ("emails", "images", "imports", "invoices", "reports", "webhooks")),
        Place("schedules", "/schedules?name=fetch-prices", ("nightly-report", "clean-carts", "5 * * * *")),
        Place("workers", "/workers", ("media-1", "billing-1", "edge-1")),
        Place("guards", "/guards", ("payments", "imports")),
        Place("doctor", "/doctor", ()),
        Place("audit", "/audit", ("ops", "queue.pause", "campaign was stopped")),
        Place("settings", "/settings", ("breaker_cooldown", "1800")),
        *job_places(shop),
    ]


def job_places(shop: Shop) -> list[Place]:
    """Pages of single jobs; a broker shows only jobs that have run."""
    done, dead = job_in(shop, "done", "webhooks"), job_in(shop, "dead", "invoices")
    found = [
        Place("job", f"/jobs/{done}", ("deliver_webhook", "Attempts", "edge-1", "Payload")),
        Place("job", f"/jobs/{dead}", ("charge_order", "PaymentFailed", "payments.py", "order ")),
        Place("job-compare", f"/jobs/{done}/compare?with={dead}", ("Differences", "deliver_webhook", "charge_order")),
    ]
    if shop.app.parts().archive is not None:
        return found
    running, parked = job_in(shop, "leased", "imports"), job_in(shop, "parked", "invoices")
    delayed, ready = job_in(shop, "delayed", "webhooks"), job_in(shop, "ready", "images")
    return [
        *found,
        Place("job", f"/jobs/{running}", ("import_products", "62 %", "It runs")),
        Place("job", f"/jobs/{parked}", ("charge_order", "payments")),
        Place("job", f"/jobs/{delayed}", ("deliver_webhook", "ConnectTimeout")),
        Place("job-edit", f"/jobs/{dead}/edit", ("Retry charge_order with edits", "shown as ***")),
        Place("reschedule", f"/jobs/reschedule?ids={ready}", ("When do they start?",)),
    ]


def look(looking: Visitor, place: Place) -> None:
    """Open an address, and find what must be there."""
    response = looking.open(place.path)
    text = page_text(looking.page)
    assert response.status == 200, f"{place.path}: {text[:2000]}"
    missing = [each for each in place.texts if each not in text]
    assert not missing, f"{place.path} does not show {missing}: {text[:3000]}"
    assert "Internal" not in text


@pytest.mark.parametrize("backend", EVERYWHERE, indirect=True)
def test_every_page_shows_its_data_on_every_backend(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    for place in places(shop_on):
        look(looking, place)
        assert looking.problems == [], place.path


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible(shop_on: Shop, visit: Visit, theme: str, size: tuple[int, int]) -> None:
    looking = visit(theme=theme, size=size)
    found = {}
    for place in places(shop_on):
        looking.open(place.path)
        found[place.path] = looking.axe()
    assert {path: violations for path, violations in found.items() if violations} == {}


def test_no_page_scrolls_sideways_on_a_narrow_phone(shop_on: Shop, visit: Visit) -> None:
    looking = visit(size=NARROW)
    found = {}
    for place in places(shop_on):
        looking.open(place.path)
        found[place.path] = looking.overflow()
    assert {path: pixels for path, pixels in found.items() if pixels} == {}


def test_every_page_of_the_dashboard_is_visited(shop_on: Shop) -> None:
    assert {place.page for place in places(shop_on)} == {page.key for page in PAGES if page.template}
