"""Live without load: unchanged pages are not sent again, and many viewers cost little more than one."""

import asyncio
import time
from statistics import median

import pytest

from tenure.app.dashboard.access import Access, everything
from tests.support.web_app import USERS, browser_of, make_app, sign_in

VIEWERS = 10
ROUNDS = 41


def stand_still(web):
    """Stop the clock of the cache, so that a slow machine does not make pages old."""
    web.web.views.cache.now = lambda: 0.0


@pytest.fixture
def web(web):
    stand_still(web)
    return web


def test_a_page_that_did_not_change_is_not_sent_again(admin):
    first = admin.get("/queues")
    again = admin.get("/queues", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    weak = admin.get("/queues", headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert weak.status_code == 304


def test_a_page_that_changed_is_sent(admin):
    etag = admin.get("/queues").headers["etag"]
    admin.post("/act/queue.pause", data={"queue": "emails", "why": "migration"})
    answer = admin.get("/queues", headers={"if-none-match": etag})
    assert (answer.status_code, "migration" in answer.text) == (200, True)


def test_viewers_with_equal_rights_share_a_page_and_see_their_own_name(app, opened):
    web = opened(app, lambda request: everything(request.headers["user"]))
    stand_still(web)
    browser = browser_of(web)
    pages = [browser.get("/queues", headers={"user": f"user <{n}>"}).text for n in range(VIEWERS)]
    assert web.web.views.cache.renders == 1
    assert ["user &lt;3&gt;" in page for page in pages] == [n == 3 for n in range(VIEWERS)]


@pytest.mark.parametrize(
    "other",
    [
        Access(user="ada", role="viewer"),
        Access(user="ada", role="operator", queues=("reports",)),
        Access(user="ada", role="operator", actions=frozenset()),
        Access(user="ada", role="operator", redact=lambda job: job),
    ],
)
def test_viewers_with_other_rights_share_nothing(app, opened, other):
    rights = [Access(user="ada", role="operator"), other]
    web = opened(app, lambda request: rights[int(request.headers["rights"])])
    browser = browser_of(web)
    pages = [browser.get("/queues", headers={"rights": str(n)}).text for n in (0, 1)]
    assert web.web.views.cache.renders == 2
    assert "Pause" in pages[0]


def test_an_access_that_cannot_be_compared_is_never_shared(app, opened):
    web = opened(app, lambda request: Access(user="ada", queues=["emails"]))
    assert browser_of(web).get("/queues").status_code == 200
    assert web.web.views.cache.renders == 0


def test_other_preferences_and_addresses_are_other_pages(web, admin):
    admin.get("/queues")
    admin.get("/queues?window=24h")
    admin.post("/preferences", data={"theme": "dark"})
    admin.get("/queues")
    assert web.web.views.cache.renders == 3


def viewers_of(web, count):
    """Browsers that have signed in."""
    browsers = [browser_of(web) for _ in range(count)]
    for browser in browsers:
        sign_in(browser)
    return browsers


def test_a_viewer_who_polls_needs_no_thread_until_the_page_changes(app, opened, monkeypatch):
    web = opened(app)
    stand_still(web)
    (viewer,) = viewers_of(web, 1)
    first = viewer.get("/queues")
    monkeypatch.setattr(web.web, "_in_thread", None)  # whoever needs a thread now fails
    assert viewer.get("/queues").text == first.text
    assert viewer.get("/queues", headers={"if-none-match": first.headers["etag"]}).status_code == 304
    assert viewer.get("/queues").headers["content-security-policy"]
    for other in ({"authorization": "Bearer x"}, {"cookie": "tenure_session=x"}):
        with pytest.raises(TypeError):
            viewer.get("/queues", headers=other)
    web.dashboard.changes += 1
    with pytest.raises(TypeError):
        viewer.get("/queues")


def test_a_viewer_who_signed_out_gets_nothing_from_memory(app, opened):
    web = opened(app)
    stand_still(web)
    viewer, other = viewers_of(web, 2)
    viewer.get("/queues")
    stolen = dict(viewer.cookies)
    viewer.post("/sign-out")
    assert other.get("/queues").status_code == 200
    assert browser_of(web, cookies=stolen).get("/queues").status_code == 303


def test_a_hook_is_asked_for_every_request(app, opened):
    asked = []
    web = opened(app, lambda request: asked.append(1) or everything("ada"))
    browser = browser_of(web, cookies={"a": "b"})
    assert [browser.get("/queues").status_code for _ in range(3)] == [200] * 3
    assert len(asked) == 3


@pytest.mark.timing
def test_ten_viewers_cost_at_most_half_more_than_one(tmp_path, opened):
    """The processor time of the application; what the HTTP server adds is the same for every request.

    It is the time of the whole process, and contains a garbage collection or a read of the figures now and then. So
    each round measures one viewer and ten, and the medians are compared.
    """
    with make_app(tmp_path, dashboard=USERS) as app:
        web = opened(app)
        stand_still(web)
        cookies = [viewer.cookies["tenure_session"] for viewer in viewers_of(web, VIEWERS)]
        rounds = asyncio.run(polls(web, cookies))
    one, ten = (median(costs) for costs in zip(*rounds, strict=True))
    assert ten <= 1.5 * one, (one, ten)


async def polls(web, cookies):
    """The processor time until the first viewer has the overview, and until all have it; each round makes it anew."""
    costs = []
    for _ in range(ROUNDS):
        web.dashboard.changes += 1
        started = time.process_time()
        statuses = [await status_of(web, cookies[0])]
        one = time.process_time() - started
        statuses += [await status_of(web, cookie) for cookie in cookies[1:]]
        costs.append((one, time.process_time() - started))
        assert statuses == [200] * VIEWERS
    return costs


async def status_of(web, cookie):
    sent = []

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "scheme": "http", "http_version": "1.1", "path": "/", "raw_path": b"/",
        "root_path": "", "query_string": b"", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(b"host", b"testserver"), (b"cookie", f"tenure_session={cookie}".encode())],
    }  # fmt: skip
    await web(scope, receive, send)
    return sent[0]["status"]
