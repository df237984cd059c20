"""The Flask example: a visitor signs up, and the mails are sent by jobs in the context of the application."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_visitor_signs_up_and_gets_one_welcome(backend, project, visit, see_dashboard):
    signups = project("flask_signups", backend, "FLASK_TENURE_URL")
    address = signups.serve("flask", "--app", "web", "run", "--port", "0")
    signups.start("flask", "--app", "web", "tenure", "work")
    browser = visit(address)
    browser.open("/")
    for _ in range(2):
        browser.page.get_by_label("Mail").fill("ada@example.org")
        browser.page.get_by_role("button").click()

    welcome = browser.page.get_by_role("listitem").filter(has_text="send_welcome: done").first
    for _ in range(300):
        if welcome.count():
            break
        browser.page.wait_for_timeout(200)  # the page has no script that would tell
        browser.page.get_by_role("link", name="Look again").click()
    expect(welcome).to_have_text("send_welcome: done, “Welcome to the lamp shop, ada@example.org!”")
    expect(browser.page.get_by_role("listitem").filter(has_text="send_reminder: delayed")).to_have_count(1)
    see_dashboard(browser, "send_welcome")
    browser.context.close()
    assert signups.stop()[1] == 0  # the server of Flask ends by the signal
