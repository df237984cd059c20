"""Pages refresh by themselves, without a reload, and rest while nobody looks."""

from playwright.sync_api import Response, expect

from tenure.backends.messages import Ack, Lease
from tests.browser.conftest import Visit
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor

HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def refreshing(visit: Visit) -> Visitor:
    """A visitor whose pages refresh every two seconds."""
    looking = visit()
    looking.context.add_cookies([{"name": "tenure_live", "value": "2", "url": looking.root}])
    return looking


def running(shop: Shop) -> Lease:
    """A job that runs now."""
    job = shop.app.define("nightly_report", {"day": "today"}).options(priority=9).build()
    shop.app.enqueue(job)
    return shop.app.backend.lease(["reports"], limit=1, seconds=3600)[0]


def refreshes(looking: Visitor) -> list[str]:
    """The addresses that were asked again, from now on."""
    asked: list[str] = []
    looking.page.on("request", lambda request: asked.append(request.url) if "tenure-refresh" in request.headers else 0)
    return asked


def test_a_job_that_ends_shows_up_without_a_reload(shop_on: Shop, visit: Visit) -> None:
    lease = running(shop_on)
    looking = refreshing(visit)
    looking.open(f"/jobs/{lease.id}")
    heading = looking.main.locator(".heading")
    expect(heading).to_contain_text("running")
    looking.page.evaluate("window.mark = 1")
    shop_on.app.backend.ack([Ack(lease=lease, output='"the result of today"')])
    expect(heading).to_contain_text("done")
    expect(looking.main).to_contain_text("the result of today")
    assert looking.page.evaluate("window.mark") == 1, "the page was loaded again"


def test_a_new_job_appears_in_the_list(shop_on: Shop, visit: Visit) -> None:
    looking = refreshing(visit)
    looking.open("/jobs?queue=reports")
    looking.page.evaluate("window.mark = 1")
    shop_on.app.enqueue(shop_on.app.define("clean_carts").named("a new one").build())
    expect(looking.main).to_contain_text("a new one")
    assert looking.page.evaluate("window.mark") == 1


def test_an_unchanged_page_is_not_sent_again(visit: Visit) -> None:
    looking = refreshing(visit)
    statuses: list[int] = []
    looking.page.on("response", lambda each: statuses.append(each.status) if is_refresh(each) else None)
    looking.open("/audit")
    looking.page.wait_for_event("response", lambda each: is_refresh(each) and each.status == 304)
    assert statuses[-1] == 304


def is_refresh(response: Response) -> bool:
    return "tenure-refresh" in response.request.headers


def test_a_hidden_tab_asks_nothing_and_one_that_is_seen_again_asks_at_once(visit: Visit) -> None:
    looking = refreshing(visit)
    looking.page.clock.install()
    looking.open("/queues")
    looking.page.evaluate(HIDE, True)
    asked = refreshes(looking)
    for _ in range(5):
        looking.page.clock.run_for(2000)
    assert asked == []
    with looking.page.expect_request(lambda request: "tenure-refresh" in request.headers):
        looking.page.evaluate(HIDE, False)
        looking.page.clock.run_for(200)


def test_a_selection_holds_the_list(visit: Visit) -> None:
    looking = refreshing(visit)
    looking.page.clock.install()
    looking.open("/jobs?queue=emails&state=ready")
    looking.page.get_by_role("checkbox", name="Select").nth(1).check()
    asked = refreshes(looking)
    for _ in range(3):
        looking.page.clock.run_for(2000)
    assert asked == []


def test_the_refresh_can_be_switched_off_and_on(visit: Visit) -> None:
    looking = refreshing(visit)
    looking.page.clock.install()
    looking.open("/queues")
    looking.page.get_by_role("button", name="Off").click()
    expect(looking.page.locator("#live-state")).to_contain_text("Paused")
    asked = refreshes(looking)
    for _ in range(3):
        looking.page.clock.run_for(15_000)
    assert asked == []
    with looking.page.expect_request(lambda request: "tenure-refresh" in request.headers):
        looking.page.get_by_role("button", name="5 s", exact=True).click()
        looking.page.clock.run_for(5000)


def test_what_is_open_and_focused_stays_so_after_a_refresh(shop_on: Shop, visit: Visit) -> None:
    looking = refreshing(visit)
    looking.open("/queues")
    name = looking.page.get_by_role("row").filter(has_text="emails").get_by_role("link", name="emails")
    name.focus()
    shop_on.app.guards.pause("emails", "seen by the next refresh")
    expect(looking.main).to_contain_text("seen by the next refresh")
    expect(name).to_be_focused()
