"""The FastAPI example: a page orders reports, a worker makes them, the page follows their progress."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_visitor_orders_reports_and_follows_their_progress(backend, project, visit, see_dashboard):
    reports = project("fastapi_reports", backend)
    address = reports.serve("uvicorn", "web:web", "--port", "0", "--timeout-graceful-shutdown", "5")
    browser = visit(address)
    browser.open("/")
    button, shown = browser.page.get_by_role("button"), browser.page.get_by_role("listitem")
    button.click()
    expect(shown).to_have_text("Month 7: ready")

    reports.start("tenure", "work")

    expect(shown).to_have_text("Month 7: done, 28 lines")
    browser.page.get_by_label("Month").fill("13")
    button.click()
    expect(shown.nth(1)).to_have_text("Month 13: dead, there is no month 13")
    see_dashboard(browser, "make_report")
    browser.context.close()
    assert reports.stop() in ([0, 0], [-15, 0])  # uvicorn ends by the signal after its shutdown
    assert "Application shutdown complete" in (reports.folder / "0.log").read_text()


def test_a_stranger_sees_no_job_of_a_visitor(project, visit):
    address = project("fastapi_reports", "sqlite").serve("uvicorn", "web:web", "--port", "0")
    owner, stranger = visit(address), visit(address)
    owner.open("/")
    stranger.open("/")
    id = owner.context.request.post(f"{address}/reports?month=7").json()["id"]

    def statuses(each):
        asked = each.context.request
        return [asked.get(f"{address}/jobs/{id}").status, asked.delete(f"{address}/jobs/{id}").status]

    assert statuses(stranger) == [404, 404]
    assert statuses(owner) == [200, 200]
