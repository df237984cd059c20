"""The overview: jobs by state, what needs attention, and the statistics of a window."""

import pytest

from tenure.app.dashboard import overview
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.overview import OverviewQuery
from tests.integration.dashboard.conftest import EVERYWHERE
from tests.support.dashboard_scene import announce, count

ADMIN = everything("ada")
MAILER = Access(user="max", role="operator", queues=("emails",))


def states(model):
    return {each.state: each.count for each in model.states}


def codes(model):
    return [each.code for each in model.attention if not each.code.startswith("doctor:")]


def find(model, code):
    (found,) = [each for each in model.attention if each.code == code]
    return found


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_jobs_are_counted_by_state(shop, view, eventually):
    shop.enqueue_many(shop.define("send", {"user": number}).build() for number in range(3))
    shop.define("send", {"user": 4}).delay("1h").dispatch()
    shop.define("send", {"user": 5}).dispatch().cancel()
    shop.define("charge", {"order": 1}).dispatch()
    shop.worker("invoices", burst=True).run()
    dashboard = view()

    eventually(lambda: states(dashboard.read(OverviewQuery(), ADMIN))["cancelled"] is not None)

    assert states(dashboard.read(OverviewQuery(), ADMIN)) == {
        "ready": 3, "delayed": 1, "parked": 0, "leased": 0, "done": 0, "dead": 1, "cancelled": 1, "expired": 0,
    }  # fmt: skip


def test_a_user_with_some_queues_sees_their_jobs_only(shop, view):
    shop.define("send", {"user": 1}).dispatch()
    shop.define("charge", {"order": 1}).dispatch()

    model = view().read(OverviewQuery(), Access(user="max", queues=("invoices",)))

    assert states(model)["ready"] == 1
    assert [row.figures.name for row in model.queues] == ["invoices"]


def test_statistics_of_a_window_are_summed_up(timed, view):
    count(timed, "emails", "send", done=90, failed=10, dead=2, run=0.2)
    count(timed, "emails", "send", ago=1200, done=90, failed=10, run=0.2)
    count(timed, "images", "resize", ago=600, done=180, run=2.0)
    count(timed, "images", "resize", ago=7200, done=1000, run=2.0)

    model = view(timed).read(OverviewQuery(window="1h"), ADMIN)

    assert (model.throughput.done, model.throughput.per_second) == (360, 0.1)
    assert (model.failures.failed, model.failures.attempts) == (20, 380)
    assert model.run_times.seconds.p50 == pytest.approx(0.2, rel=0.1)
    assert model.run_times.seconds.p99 == pytest.approx(2.0, rel=0.1)
    assert [(row.name, row.attempts, row.died) for row in model.handlers] == [("send", 200, 2), ("resize", 180, 0)]
    assert states(model)["done"] == 1360
    assert len(model.throughput.chart.times) == 12
    assert model.throughput.chart.seconds == 300


def test_handlers_of_other_queues_are_left_out(timed, view):
    count(timed, "emails", "send", done=9)
    count(timed, "images", "resize", done=9)

    model = view(timed).read(OverviewQuery(), MAILER)

    assert [row.name for row in model.handlers] == ["send"]
    assert (model.throughput.done, states(model)["done"]) == (9, 9)


def test_nothing_needs_attention_in_a_quiet_shop(shop, view):
    announce(shop, "app-1", "emails")

    assert codes(view().read(OverviewQuery(), ADMIN)) == []


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_an_open_breaker_says_how_many_jobs_wait_for_it(shop, view):
    for _ in range(shop.settings.breaker_threshold):
        with pytest.raises(OSError, match="down"), shop.guards.breaker("payments").closed():
            raise OSError("down")
    shop.enqueue_many(shop.define("charge", {"order": number}).build() for number in range(3))
    shop.worker("invoices", burst=True).run()

    dashboard = view()
    found = find(dashboard.read(OverviewQuery(), ADMIN), "breaker_open")

    assert found.sentence.startswith("Breaker payments is open: 3 jobs of invoices are parked, next probe in ")
    assert (found.signal, found.link) == ("problem", "/guards?kind=breaker&key=payments")
    assert found.since is not None
    assert codes(dashboard.read(OverviewQuery(), MAILER)) == []
    (parked,) = [row for row in dashboard.read(OverviewQuery(), ADMIN).queues if row.figures.name == "invoices"]
    assert (parked.figures.breakers, parked.empty_in) == (("payments",), None)


def test_deaths_above_the_hour_before_are_told(timed, view):
    count(timed, "invoices", "charge", ago=4000, dead=4)
    count(timed, "invoices", "charge", ago=1200, dead=20)
    count(timed, "invoices", "refund", ago=600, dead=11)

    found = find(view(timed).read(OverviewQuery(), ADMIN), "deaths")

    assert found.sentence == "31 jobs died in the last hour, 4 in the hour before: most of them of charge"
    assert (found.signal, f"{found.since:%H:%M}", f"{found.until:%H:%M}") == ("problem", "14:10", "14:25")


def test_as_many_deaths_as_before_need_no_attention(timed, view):
    count(timed, "invoices", "charge", ago=4000, dead=4)
    count(timed, "invoices", "charge", ago=1200, dead=4)

    assert codes(view(timed).read(OverviewQuery(), ADMIN)) == []


def test_a_paused_queue_with_waiting_jobs_can_be_resumed_from_the_list(shop, view):
    announce(shop, "app-1", "emails", "reports")
    shop.define("send", {"user": 1}).dispatch()
    shop.guards.pause("emails", "catalogue migration")
    shop.guards.pause("reports")

    dashboard = view()
    found = find(dashboard.read(OverviewQuery(), ADMIN), "queue_paused")

    assert found.sentence == "Queue emails is paused, “catalogue migration”: 1 job waits"
    assert (found.label, found.changes) == ("Resume", True)
    seen_by_viewer = find(dashboard.read(OverviewQuery(), Access(user="eve")), "queue_paused")
    assert (seen_by_viewer.label, seen_by_viewer.link, seen_by_viewer.changes) == ("Queues", "/queues", False)


def test_silent_workers_and_queues_without_workers_are_told(timed, view):
    timed.job(name="send", queue="emails")(lambda: None)
    announce(timed, "app-2", "reports", silent=20)
    timed.define("send").dispatch()

    dashboard = view(timed)
    model = dashboard.read(OverviewQuery(), ADMIN)

    silent = find(model, "worker_silent").sentence
    assert silent == "Worker app-2, pid 7, has been silent for 20 s; a worker is forgotten after 30 s"
    assert find(model, "queue_unserved").sentence == "No worker listens on queue emails: 1 job is ready"
    assert codes(dashboard.read(OverviewQuery(), MAILER)) == ["queue_unserved"]


def test_many_silent_workers_make_one_line(timed, view):
    for number in range(3):
        announce(timed, f"app-{number}", "reports", silent=20 + number)

    found = find(view(timed).read(OverviewQuery(), ADMIN), "worker_silent")

    assert found.sentence == "3 workers have been silent for 22 s; a worker is forgotten after 30 s"


def test_problems_come_before_warnings(timed, view):
    announce(timed, "app-2", "default", silent=20)
    count(timed, "invoices", "charge", ago=1200, dead=20)

    assert codes(view(timed).read(OverviewQuery(), ADMIN)) == ["deaths", "worker_silent"]


def test_the_findings_of_the_doctor_are_for_users_who_may_read_them(shop, view, eventually):
    shop.enqueue(shop.define("send", {"user": 1}).build())
    dashboard = view()

    eventually(lambda: dashboard.read(OverviewQuery(), ADMIN).checks)

    assert dashboard.read(OverviewQuery(), ADMIN).checks["ok"] > 0
    assert dashboard.read(OverviewQuery(), MAILER).checks is None


def test_a_new_app_is_told_from_one_without_work(shop, view, eventually):
    dashboard = view()
    eventually(lambda: states(dashboard.read(OverviewQuery(), ADMIN))["cancelled"] is not None)

    assert dashboard.read(OverviewQuery(), ADMIN).is_new

    shop.define("send", {"user": 1}).dispatch()
    assert not view().read(OverviewQuery(), ADMIN).is_new


def test_counting_ended_jobs_stops_at_a_bound(shop, view, monkeypatch, eventually):
    monkeypatch.setattr(overview, "_MAX_ENDED", 2)
    for number in range(3):
        shop.define("send", {"user": number}).dispatch().cancel()
    dashboard = view()
    eventually(lambda: states(dashboard.read(OverviewQuery(), ADMIN))["cancelled"] is not None)

    (cancelled,) = [each for each in dashboard.read(OverviewQuery(), ADMIN).states if each.state == "cancelled"]
    assert (cancelled.count, cancelled.or_more) == (2, True)
