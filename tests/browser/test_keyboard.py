"""The keyboard map: every key does what the help says, outside of fields only."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.test_actions import last_record
from tests.support.browser.shops import Shop
from tests.support.browser.visitor import Visitor


@pytest.fixture
def looking(visit: Visit) -> Visitor:
    found = visit()
    found.open("/jobs?queue=emails&state=ready")
    return found


def press(looking: Visitor, *keys: str) -> None:
    for key in keys:
        looking.page.keyboard.press(key)


def focused(looking: Visitor) -> str:
    text: str = looking.page.evaluate("document.activeElement.closest('tr')?.id ?? document.activeElement.id")
    return text


def test_the_help_opens_and_closes(looking: Visitor) -> None:
    press(looking, "?")
    expect(looking.page.get_by_role("dialog", name="Keys")).to_be_visible()
    press(looking, "Escape")
    expect(looking.page.get_by_role("dialog")).to_have_count(0)


def test_the_search_and_the_filter_take_the_focus_and_then_the_keys(looking: Visitor) -> None:
    press(looking, "/")
    assert focused(looking) == "search"
    press(looking, "g", "q", "?")
    assert looking.page.locator("#search").input_value() == "gq?"
    expect(looking.page.get_by_role("dialog")).to_have_count(0)
    press(looking, "Escape", "f")
    assert focused(looking) == "filter"


@pytest.mark.parametrize(
    ("key", "page"),
    [
        ("o", "/"),
        ("j", "/jobs"),
        ("d", "/dead"),
        ("q", "/queues"),
        ("s", "/schedules"),
        ("w", "/workers"),
        ("u", "/guards"),
    ],
)
def test_g_goes_to_a_page(looking: Visitor, key: str, page: str) -> None:
    press(looking, "g", key)
    looking.page.wait_for_url(f"{looking.root}{page}")


def test_rows_are_walked_opened_selected_and_cleared(looking: Visitor) -> None:
    press(looking, "j")
    first = focused(looking)
    press(looking, "j")
    second = focused(looking)
    assert first.startswith("job-")
    assert second != first
    press(looking, "k")
    assert focused(looking) == first
    press(looking, "x", "j", "j", "Shift+X")
    expect(looking.page.get_by_role("button", name="Cancel 3")).to_be_visible()
    press(looking, "Escape")
    expect(looking.page.get_by_role("button", name="Cancel 3")).to_have_count(0)
    press(looking, "a")
    expect(looking.page.get_by_role("checkbox", name="Select all on the page")).to_be_checked()
    press(looking, "Escape", "k", "Enter")
    looking.page.wait_for_url(f"{looking.root}/jobs/*-*")


def test_c_cancels_only_through_the_confirmation(looking: Visitor, shop_on: Shop) -> None:
    before = last_record(shop_on)
    press(looking, "j", "c")
    expect(looking.page.get_by_role("dialog")).to_contain_text("Cancel")
    press(looking, "Escape")
    expect(looking.page.get_by_role("dialog")).to_have_count(0)
    assert last_record(shop_on) == before


def test_n_and_p_turn_pages(visit: Visit) -> None:
    looking = visit()
    looking.open("/jobs?state=ready&queue=images")
    expect(looking.page.get_by_text("1 to 50 of")).to_be_visible()
    press(looking, "n")
    expect(looking.page.get_by_text("51 to 100 of")).to_be_visible()
    press(looking, "p")
    expect(looking.page.get_by_text("1 to 50 of")).to_be_visible()


def test_single_keys_can_be_switched_off(looking: Visitor) -> None:
    looking.page.locator("#user > summary").click()
    looking.page.get_by_role("button", name="Switch single keys off").click()
    press(looking, "Escape", "?")
    expect(looking.page.get_by_role("dialog")).to_have_count(0)
    looking.page.reload()
    press(looking, "?")
    expect(looking.page.get_by_role("dialog")).to_have_count(0)


def test_a_key_with_a_modifier_does_nothing(looking: Visitor) -> None:
    press(looking, "Control+j", "Alt+j")
    assert not focused(looking).startswith("job-")
