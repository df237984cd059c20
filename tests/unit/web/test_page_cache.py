"""Pages that were rendered a moment ago are shown again, to many viewers at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.web.page_cache import FRESH_SECONDS, PageCache, Rendered
from tests.support.waiting import WAIT_SECONDS


class Renders:
    """Counts how often a page was made."""

    def __init__(self):
        self.now = 0.0
        self.made = 0
        self.cache = PageCache(lambda: self.now)

    def make(self):
        self.made += 1
        return Rendered(f"page {self.made}".encode())

    def get(self, key="page", changes=0):
        return self.cache.get(key, changes, self.make).body


@pytest.fixture
def renders():
    return Renders()


def test_a_page_is_made_once_for_all_viewers_until_it_is_no_longer_fresh(renders):
    assert {renders.get() for _ in range(10)} == {b"page 1"}
    renders.now += FRESH_SECONDS
    assert {renders.get() for _ in range(10)} == {b"page 2"}


def test_an_action_drops_all_pages(renders):
    assert [renders.get(changes=0), renders.get(changes=1), renders.get(changes=1)] == [b"page 1", b"page 2", b"page 2"]


def test_each_address_and_access_has_a_page_of_its_own(renders):
    assert [renders.get("a"), renders.get("b"), renders.get("a")] == [b"page 1", b"page 2", b"page 1"]


def test_viewers_who_come_at_once_wait_for_one_page(renders):
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert go_on.wait(WAIT_SECONDS)
        return renders.make()

    with ThreadPoolExecutor(6) as viewers:
        first = viewers.submit(renders.cache.get, "page", 0, slow)
        assert begun.wait(WAIT_SECONDS)
        others = [viewers.submit(renders.cache.get, "page", 0, renders.make) for _ in range(5)]
        go_on.set()
        assert {each.result(WAIT_SECONDS).body for each in [first, *others]} == {b"page 1"}


def test_a_page_that_is_a_little_old_is_shown_while_a_new_one_is_made(renders):
    renders.get()
    renders.now += FRESH_SECONDS
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert go_on.wait(WAIT_SECONDS)
        return renders.make()

    with ThreadPoolExecutor(1) as viewer:
        newer = viewer.submit(renders.cache.get, "page", 0, slow)
        assert begun.wait(WAIT_SECONDS)
        assert renders.get() == b"page 1"
        go_on.set()
        assert newer.result(WAIT_SECONDS).body == b"page 2"


def test_a_page_that_cannot_be_made_is_tried_again(renders):
    def fail():
        raise ValueError("no page")

    with pytest.raises(ValueError, match="no page"):
        renders.cache.get("page", 0, fail)
    assert renders.get() == b"page 1"


def test_the_cache_is_bounded_in_pages_and_in_bytes(renders):
    for n in range(1000):
        renders.get(f"page {n}")
    assert len(renders.cache._entries) == 256
    for n in range(10):
        renders.cache.get(f"large {n}", 0, lambda: Rendered(b"x" * 10_000_000))
    assert sum(len(each.page.body) for each in renders.cache._entries.values()) <= 33_554_432
    assert renders.cache._bytes == sum(len(each.page.body) for each in renders.cache._entries.values())
