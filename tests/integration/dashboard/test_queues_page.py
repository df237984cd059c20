"""The queues page: counts, rates, limits, charts, and what a user may do there."""

import pytest

from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.queues import DrainQueue, PauseQueue, QueuesQuery, ResumeQueue
from tests.integration.dashboard.conftest import EVERYWHERE
from tests.support.dashboard_scene import announce, count

ADMIN = everything("ada")


def row(model, name):
    (found,) = [each for each in model.queues if each.figures.name == name]
    return found


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_each_queue_shows_its_jobs_workers_and_limits(shop, view):
    announce(shop, "app-1", "emails", rates={"emails": 2.0})
    shop.enqueue_many(shop.define("send", {"user": number}).build() for number in range(4))
    shop.define("charge", {"order": 1}).delay("1h").dispatch()

    model = view().read(QueuesQuery(), ADMIN)

    emails = row(model, "emails")
    assert (emails.figures.ready, emails.figures.workers, emails.limit) == (4, 1, "at most 320/min")
    assert (emails.figures.service_rate, emails.empty_in) == (2.0, 2.0)
    assert row(model, "invoices").figures.delayed == 1
    assert (model.totals.ready, model.totals.delayed, model.totals.service_rate) == (4, 1, 2.0)
    assert model.fullest == "emails"
    assert (model.may_pause, model.may_resume, model.may_drain) == (True, True, True)


def test_a_paused_queue_says_why_and_when_it_is_empty_is_not_known(shop, view):
    announce(shop, "app-1", "emails", rates={"emails": 2.0})
    shop.define("send", {"user": 1}).dispatch()
    dashboard = view()

    dashboard.act(PauseQueue(queue="emails"), ADMIN, "catalogue migration")

    emails = row(dashboard.read(QueuesQuery(), ADMIN), "emails")
    assert (emails.figures.pause_reason, emails.empty_in, emails.is_draining) == ("catalogue migration", None, False)
    assert shop.guards.paused("emails")["emails"].reason == "catalogue migration"


def test_a_paused_queue_with_running_jobs_drains(shop, view):
    shop.define("send", {"user": 1}).dispatch()
    shop.backend.lease(["emails"], limit=1, seconds=60)
    dashboard = view()

    dashboard.act(DrainQueue(queue="emails"), ADMIN, "deploy")

    assert row(dashboard.read(QueuesQuery(), ADMIN), "emails").is_draining
    dashboard.act(ResumeQueue(queue="emails"), ADMIN)
    assert row(dashboard.read(QueuesQuery(), ADMIN), "emails").figures.paused_since is None


def test_the_first_reason_of_a_pause_stays(shop, view):
    shop.define("send", {"user": 1}).dispatch()
    dashboard = view()
    dashboard.act(PauseQueue(queue="emails"), ADMIN, "first")

    record = dashboard.act(PauseQueue(queue="emails"), ADMIN, "second")

    assert PauseQueue(queue="emails").outcome(record.counts) == "emails was paused before; its first reason stays."
    assert shop.guards.paused("emails")["emails"].reason == "first"


def test_a_viewer_may_not_act(view):
    model = view().read(QueuesQuery(), Access(user="eve"))

    assert (model.may_pause, model.may_resume, model.may_drain) == (False, False, False)


def test_the_wait_before_the_first_attempt_is_shown_for_the_slowest_queues(timed, view):
    count(timed, "images", "resize", done=20, wait=38.0)
    count(timed, "emails", "send", done=20, wait=1.0)
    count(timed, "reports", "report", done=20, wait=0.1)

    dashboard = view(timed)
    waits = dashboard.read(QueuesQuery(), ADMIN).waits

    assert [line.name for line in waits.lines] == ["images", "emails"]
    assert waits.lines[0].values[-1] == pytest.approx(38.0, rel=0.1)
    limited = dashboard.read(QueuesQuery(), Access(user="eve", queues=("emails",)))
    assert [line.name for line in limited.waits.lines] == ["emails"]


def test_the_jobs_done_in_each_slot_make_the_sparkline(timed, view):
    count(timed, "default", "send", ago=600, done=300)

    dashboard = view(timed)

    assert row(dashboard.read(QueuesQuery(window="15m"), ADMIN), "default").done == (1.0, 0.0, 0.0)
    assert len(row(dashboard.read(QueuesQuery(window="7d"), ADMIN), "default").done) == 288


def test_queues_of_lanes_replace_those_of_the_setting(view):
    from tenure import Tenure

    with Tenure("memory://", environment="development", lanes={"slow": {"queues": ["videos"]}}) as app:
        assert [each.figures.name for each in view(app).read(QueuesQuery(), ADMIN).queues] == ["videos"]
