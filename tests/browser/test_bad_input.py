"""Wrong addresses, tampered forms and a backend that is down: a page that says so, and nothing done."""

from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.test_actions import last_record
from tests.browser.test_roles import post
from tests.support.browser.shops import Shop, filled_shop
from tests.support.browser.visitor import page_text
from tests.support.servers import Server
from tests.support.waiting import eventually

UNKNOWN = "019a8700-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nowhere", 404, "Not found"),
        (f"/jobs/{UNKNOWN}", 404, UNKNOWN),
        (f"/audit/{UNKNOWN}", 404, UNKNOWN),
        ("/jobs?sate=ready", 400, "sate"),
        ("/jobs?state=reddy", 400, "ready"),
        ("/jobs?since=yesteryear", 400, "yesteryear"),
        ("/jobs?after=%7Bbroken", 400, ""),
        ("/queues?window=1y", 400, "window"),
        ("/act/queue.explode", 404, "queue.explode"),
        ("/act/queue.pause?queue=nowhere", 409, "nowhere"),
        ("/act/queue.pause?queue=emails&back=https%3A%2F%2Fevil.example%2F", 400, "back"),
        ("/act/queue.pause?queue=emails&color=red", 400, "color"),
        (f"/jobs?{urlencode({'text': 'x' * 20_000})}", 414, "too long"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_address_is_answered_with_a_page_that_says_so(visit: Visit, path: str, status: int, text: str) -> None:
    looking = visit()
    response = looking.open(path)
    shown = page_text(looking.page)
    assert response.status == status, shown
    assert text in shown
    assert looking.axe() == []


def test_a_wrong_word_of_the_filter_comes_with_a_suggestion(visit: Visit) -> None:
    looking = visit()
    looking.open("/jobs?state=reddy")
    expect(looking.page.get_by_role("alert")).to_contain_text("Did you mean")
    assert looking.page.get_by_role("checkbox").count() == 0, "no action on a filter that is wrong"
    looking.page.get_by_role("alert").get_by_role("link").click()
    looking.page.wait_for_url("**/jobs?state=ready")


def test_a_tampered_form_changes_nothing(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/queues")
    before = last_record(shop_on)
    good = {"queue": "emails", "why": "x", "back": "/queues"}
    for tampered in ({**good, "user": "root"}, {**good, "shown": "many"}, {**good, "back": "//evil.example"}):
        assert post(looking, "/act/queue.pause", tampered) == 400, tampered
    assert post(looking, "/act/queue.pause", {"why": "x"}) == 400
    assert post(looking, "/act/jobs.cancel", {"all": "true", "filter": "state=ready", "why": "x", "typed": "1"}) == 400
    assert shop_on.app.guards.paused("emails") == {}
    assert last_record(shop_on) == before


class TestWithAServerThatIsDown:
    @pytest.fixture
    def server(self, own_server: Callable[[str], Server]) -> Server:
        return own_server("redis")

    @pytest.fixture
    def shop_on(self, server: Server) -> Iterator[Shop]:
        with filled_shop(f"{server.url}?prefix=shop", environment="development") as shop:
            yield shop

    def test_a_page_says_what_failed_and_works_again_when_the_server_is_back(
        self, visit: Visit, server: Server
    ) -> None:
        looking = visit()
        looking.open("/queues")
        server.kill()
        assert looking.open("/jobs?state=done").status == 503
        expect(looking.page.get_by_role("alert").first).to_contain_text("cannot be reached")
        expect(looking.page.locator("#live-state")).to_contain_text("Stale")
        expect(looking.page.get_by_role("navigation", name="Pages")).to_contain_text("1 paused")
        assert looking.axe() == []
        server.start()
        eventually(lambda: looking.open("/jobs?state=done").status == 200)
