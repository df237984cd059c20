"""The guards page: which guards have a state, who holds them, what waits for them; reset one."""

import pytest

from tenure.app.dashboard import guards
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.guards import GuardsQuery, ResetGuard
from tenure.errors import AccessDenied, ActionRefused
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder
from tests.integration.dashboard.conftest import EVERYWHERE

ADMIN = everything("ada")


def hold(app, name, id="job-1", seconds=600.0):
    app.guards.store().change([take_guards([ConcurrencyLimit(f"lock:{name}")], Holder(id, 1, seconds))])


def keys(model):
    return [row.key for row in model.guards]


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_a_lock_shows_its_holder_and_the_jobs_that_wait(shop, view):
    hold(shop, "report", "holder-job")
    shop.enqueue_many(shop.define("report", {"month": number}).build() for number in range(2))
    shop.worker("reports", burst=True).run()
    shop.guards.pause("emails", "deploy")

    dashboard = view()
    model = dashboard.read(GuardsQuery(), ADMIN)

    lock, pause = model.guards
    assert (lock.key, lock.name, lock.kind_name, lock.state) == ("lock:report", "report", "lock", "1 of 1 held")
    assert ([each.id for each in lock.holders], lock.parked, lock.signal) == (["holder-job"], 2, None)
    assert lock.since < lock.until
    assert (pause.name, pause.state, pause.signal) == ("emails", "paused: deploy", "warning")
    assert dashboard.read(GuardsQuery(kind="pause"), ADMIN).guards == (pause,)


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_guards_are_filtered_by_kind_and_beginning_and_shown_in_pages(shop, view, monkeypatch):
    monkeypatch.setattr(guards, "PAGE_SIZE", 2)
    for name in ("import-a", "import-b", "import-c", "report"):
        hold(shop, name)
    dashboard = view()

    first = dashboard.read(GuardsQuery(kind="lock", key="import"), ADMIN)
    second = dashboard.read(GuardsQuery(kind="lock", key="import", after=first.next), ADMIN)

    assert (keys(first), first.next) == (["lock:import-a", "lock:import-b"], "lock:import-b")
    assert (keys(second), second.next) == (["lock:import-c"], None)
    assert keys(dashboard.read(GuardsQuery(key="lock:rep"), ADMIN)) == ["lock:report"]
    assert keys(dashboard.read(GuardsQuery(kind="breaker"), ADMIN)) == []


def test_a_rate_is_found_by_the_name_of_its_queue(shop, view):
    shop.guards.queue("emails").allow()
    dashboard = view()

    (rate,) = dashboard.read(GuardsQuery(kind="rate", key="emails"), ADMIN).guards

    assert rate.key == "rate:queue:emails"


def test_a_reset_says_what_happens_and_wakes_what_waits(shop, view):
    hold(shop, "report")
    shop.define("report", {"month": 1}).dispatch()
    shop.worker("reports", burst=True).run()
    dashboard = view()

    preview = dashboard.preview(ResetGuard(key="lock:report"), ADMIN)
    record = dashboard.act(ResetGuard(key="lock:report"), ADMIN, "its worker hangs")

    assert "also while a job holds it" in preview.effects[0].text
    assert (preview.effects[1].state, preview.effects[1].count) == ("parked", 1)
    assert (record.counts, record.why) == ({"reset": 1}, "its worker hangs")
    assert dashboard.sources.figures.queue("reports").ready == 1


def test_a_guard_that_is_free_by_now_is_refused(view):
    with pytest.raises(ActionRefused, match="no guard 'lock:none' has a state"):
        view().act(ResetGuard(key="lock:none"), ADMIN, "test")


def test_guards_are_only_for_users_who_see_all_queues(shop, view):
    hold(shop, "report")
    limited = Access(user="max", role="admin", queues=("reports",))

    with pytest.raises(AccessDenied):
        view().read(GuardsQuery(), limited)
    with pytest.raises(AccessDenied):
        view().act(ResetGuard(key="lock:report"), limited, "test")
    assert shop.guards.search("lock:report")[0].jobs == ("job-1",)


def test_a_viewer_may_read_and_not_reset(shop, view):
    hold(shop, "report")

    assert not view().read(GuardsQuery(), Access(user="eve")).may_reset
    with pytest.raises(AccessDenied):
        view().act(ResetGuard(key="lock:report"), Access(user="eve"), "test")


def test_many_waiting_jobs_are_counted_up_to_a_bound(shop, view, monkeypatch):
    monkeypatch.setattr(guards, "_COUNTED_JOBS", 2)
    monkeypatch.setattr(guards, "_LEAST_COUNTED", 1)
    hold(shop, "report")
    shop.enqueue_many(shop.define("report", {"month": number}).build() for number in range(3))
    shop.worker("reports", burst=True).run()

    (lock,) = view().read(GuardsQuery(), ADMIN).guards

    assert (lock.parked, lock.or_more) == (2, True)
