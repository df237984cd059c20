"""HTML in the texts of jobs, workers, guards, schedules and users is shown as text, and never becomes an element."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tenure.app.dashboard.access import Access
from tenure.testing import FakeClock
from tests.browser.conftest import Visit
from tests.support.browser.hostile_shop import AUDIT_ID, HTML, QUEUE, fill_hostile, hostile_app
from tests.support.browser.shops import Shop

# Elements and attributes that only an injected text could have made.
_INJECTED = """[...document.querySelectorAll("*")].filter(element =>
    element.matches("img, script:not([src])") || [...element.attributes].some(each => each.name.startsWith("on"))
).map(element => element.outerHTML.slice(0, 200))"""


@pytest.fixture
def shop_on(tmp_path: Path) -> Iterator[Shop]:
    clock = FakeClock()
    with hostile_app(f"sqlite:///{tmp_path}/hostile.db?synchronous=normal", clock) as app:
        yield Shop(app, clock)


@pytest.fixture
def users() -> dict[str, Access]:
    return {"ops": Access(user=HTML, role="admin")}


def test_no_text_becomes_an_element_on_any_page(shop_on: Shop, visit: Visit) -> None:
    ids = fill_hostile(shop_on.app, shop_on.clock)
    looking = visit()
    for path in addresses(ids):
        response = looking.open(path)
        assert response.status in (200, 400, 404, 409), f"{path}: {response.status}"
        assert looking.page.evaluate(_INJECTED) == [], path
        assert "onerror=alert(1)" in looking.page.content(), path
        assert looking.problems == [], path


def test_no_text_becomes_an_element_when_a_page_refreshes(shop_on: Shop, visit: Visit) -> None:
    looking = visit()
    looking.open("/jobs")
    fill_hostile(shop_on.app, shop_on.clock)
    with looking.page.expect_response(lambda each: "tenure-refresh" in each.request.headers):
        looking.page.keyboard.press("r")
    looking.page.get_by_text("onerror").first.wait_for()
    assert looking.page.evaluate(_INJECTED) == []


def addresses(ids: list[str]) -> list[str]:
    """Every page and every confirmation, with the hostile texts in their lists, fields and errors."""
    text, one = quote(HTML, safe=""), quote(ids[1], safe="")
    lists = [
        *("/", "/jobs", "/dead", "/queues", "/schedules", "/workers", "/guards", "/doctor", "/audit", "/settings"),
        *(f"/jobs?state={state}" for state in ("ready", "delayed", "parked", "leased", "done", "dead", "expired")),
        *(f"/jobs?{key}={text}" for key in ("queue", "handler", "tag", "text", "reason", "worker", "id", "state")),
        *(f"/dead?by={by}" for by in ("error", "handler", "none")),
        *(f"/dead?{key}={text}" for key in ("queue", "handler", "reason", "text", "group")),
        *(f"/{page}={text}" for page in ("schedules?name", "schedules?q", "guards?key", "audit?user")),
        f"/audit/{AUDIT_ID}",
    ]
    jobs = [f"/jobs/{quote(id, safe='')}" for id in ids]
    more = [f"{jobs[1]}/compare?with={one}", f"{jobs[1]}/edit", f"/jobs/reschedule?ids={one}", f"/jobs/{text}/compare"]
    wrong = [f"/{text}", f"/queues?{urlencode({HTML: HTML})}", f"/act/{text}"]
    return [*lists, *jobs, *more, *asked(ids), *wrong]


def asked(ids: list[str]) -> list[str]:
    """The confirmations of all actions."""
    actions = {
        **{f"queue.{verb}": {"queue": HTML} for verb in ("pause", "drain", "resume")},
        **{f"schedule.{verb}": {"name": HTML} for verb in ("pause", "resume", "run")},
        **{f"worker.{verb}": {"worker": HTML} for verb in ("drain", "resume")},
        **{f"jobs.{verb}": {"ids": ids[-1]} for verb in ("retry", "cancel", "delete", "reschedule")},
        **{f"dead.{verb}": {"ids": HTML} for verb in ("replay", "delete")},
        "guard.reset": {"key": f"breaker:{HTML}"},
        "queue.unknown": {"queue": QUEUE},
    }
    back = f"/jobs?text={quote(HTML, safe='')}"
    return [f"/act/{name}?{urlencode({**fields, 'back': back})}" for name, fields in actions.items()]
