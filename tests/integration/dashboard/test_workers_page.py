"""The workers page: lanes, runs, memory, heartbeats; drain a worker and resume it."""

import pytest

from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.workers import DrainWorker, ResumeWorker, WorkersQuery
from tenure.backends.records import LaneRecord, RunningJob
from tenure.clock import MICROSECOND
from tenure.errors import AccessDenied, ActionRefused
from tests.integration.dashboard.conftest import EVERYWHERE
from tests.support.dashboard_scene import announce

ADMIN = everything("ada")
MAILER = Access(user="max", role="operator", queues=("emails",))
GIGABYTE = 1 << 30


def run(app, queue, seconds, id="job-1"):
    started = app.clock.now() - round(seconds * MICROSECOND)
    return RunningJob(id=id, handler=f"of_{queue}", name=None, queue=queue, lane="", started_at=started)


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_a_worker_is_shown_with_lanes_runs_and_memory(shop, view):
    lanes = (
        LaneRecord(name="mail", queues=("emails",), runner="threads", concurrency=16, held=9),
        LaneRecord(name="slow", queues=("reports",), runner="process", concurrency=2, held=3),
    )
    announce(
        *(shop, "app-1:7:abc", "emails", "reports"),
        lanes=lanes, jobs=tuple(f"job-{number}" for number in range(12)), rates={"emails": 5.0, "reports": 0.5},
        running=(run(shop, "reports", 90), run(shop, "emails", 2, "job-2")),
        memory=3 * GIGABYTE, peak_child=GIGABYTE, max_memory=2 * GIGABYTE,
    )  # fmt: skip

    model = view().read(WorkersQuery(), ADMIN)

    (card,) = model.workers
    assert [(lane.name, lane.used, lane.places, lane.waiting) for lane in card.lanes] == [
        ("mail", 9, 16, 0), ("slow", 2, 2, 1),
    ]  # fmt: skip
    assert ([each.id for each in card.runs], card.more_runs) == (["job-1", "job-2"], 10)
    assert 90 <= card.runs[0].seconds < 100
    assert (card.memory, card.peak, card.limit, card.is_full) == (3 * GIGABYTE, GIGABYTE, 2 * GIGABYTE, False)
    assert (model.used, model.places, model.per_second, model.draining) == (11, 18, 5.5, 0)
    assert model.longest_run.handler == "of_reports"


def test_a_nearly_full_process_and_a_silent_worker_are_marked(shop, view):
    announce(shop, "app-1", "emails", silent=16, peak_child=9, max_memory=10)

    (card,) = view().read(WorkersQuery(), ADMIN).workers

    assert (card.is_silent, card.is_full) == (True, True)


def test_a_user_with_some_queues_sees_their_workers_lanes_and_jobs_only(shop, view):
    announce(shop, "app-1", "emails", "reports", running=(run(shop, "reports", 9), run(shop, "emails", 2)))
    announce(shop, "app-2", "reports")

    (card,) = view().read(WorkersQuery(), MAILER).workers

    assert card.host == "app-1"
    assert [each.queue for each in card.runs] == ["emails"]
    assert card.lanes[0].queues == ("emails",)


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_a_worker_is_drained_with_the_reason_of_the_user_and_resumed(shop, view):
    announce(shop, "app-1", "emails")
    dashboard = view()
    command = DrainWorker(worker="app-1")

    record = dashboard.act(command, ADMIN, "disk")

    (card,) = dashboard.read(WorkersQuery(), ADMIN).workers
    assert (card.draining_since is not None, card.draining_reason) == (True, "disk")
    assert record.counts == {"draining": 1}
    dashboard.act(command.undo(), ADMIN)
    (card,) = dashboard.read(WorkersQuery(), ADMIN).workers
    assert card.draining_since is None


def test_the_preview_names_the_queues_that_no_other_worker_serves(shop, view):
    announce(shop, "app-1", "emails", "reports", jobs=("job-1",))
    announce(shop, "app-2", "emails")

    preview = view().preview(DrainWorker(worker="app-1"), ADMIN)

    assert preview.effects[0].count == 1
    assert preview.notes == ("No other worker serves reports: their jobs wait until this one is resumed.",)


def test_a_worker_that_is_gone_is_refused(view):
    with pytest.raises(ActionRefused, match="no worker 'app-9' is alive"):
        view().act(ResumeWorker(worker="app-9"), ADMIN)


def test_a_worker_that_serves_other_queues_too_is_refused(shop, view):
    announce(shop, "app-1", "emails", "reports")
    announce(shop, "app-2", "reports")

    with pytest.raises(AccessDenied, match="also serves 1 queues that the user does not see"):
        view().act(DrainWorker(worker="app-1"), MAILER)
    with pytest.raises(ActionRefused, match="no worker 'app-2' is alive"):
        view().act(DrainWorker(worker="app-2"), MAILER)
    assert shop.guards.draining("app-1", "app-2") == {}


def test_a_backend_without_a_registry_says_so(view):
    from tenure import Tenure

    with Tenure("sync://", environment="development") as app:
        assert view(app).read(WorkersQuery(), ADMIN).workers is None
