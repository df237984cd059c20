"""Actions on jobs: what they announce, what they do, and that they stay within the queues of the user."""

from dataclasses import replace

import pytest

from tenure.app.dashboard import job_selection
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.job import OneJobQuery
from tenure.app.dashboard.job_actions import CancelJobs, DeleteJobs, RescheduleJobs, RetryJobs, outcome_text
from tenure.app.dashboard.reschedule import RescheduleQuery
from tenure.errors import AccessDenied, ActionRefused, InvalidFilter

everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "redis", "postgres", "mariadb"], indirect=True)
OPS = everything("ops")
CLERK = Access(user="clerk", role="admin", queues=("mail",))


@pytest.fixture
def state(app):
    def state(id):
        record = app.parts().find(id)
        return None if record is None else record.state

    return state


@everywhere
def test_selected_jobs_are_cancelled(dashboard, shop, state):
    command = CancelJobs(ids=(shop["ready"], shop["delayed"], shop["dead"], "nobody"))
    preview = dashboard.preview(command, OPS)
    assert (preview.question, preview.total, preview.is_final) == ("Cancel 2 jobs?", 2, True)
    assert [(each.state, each.count) for each in preview.effects] == [("ready", 1), ("delayed", 1)]
    assert any("1 dead" in note for note in preview.notes)
    assert any("1 of the selected jobs is not known" in note for note in preview.notes)
    record = dashboard.act(command, OPS, "wrong price list")
    assert record.counts == {"cancelled": 2, "too_late": 1}
    assert [state(shop[name]) for name in ("ready", "delayed", "dead")] == ["cancelled", "cancelled", "dead"]


@everywhere
def test_all_jobs_of_a_filter_are_cancelled_but_not_later_ones(app, add, dashboard, shop, state):
    dashboard.sources.recorder.read_now()
    command = CancelJobs(all=True, filter="queue=mail", before=app.clock.now())
    later = add.using(queue="mail").enqueue(9).id
    preview = dashboard.preview(command, OPS)
    assert (preview.total, preview.verb) == (3, "Cancel 3 jobs")
    assert "queue:mail" in preview.notes[0]
    record = dashboard.act(command, OPS, "wrong price list")
    assert record.counts == {"cancelled": 3}
    assert state(later) == "ready"
    assert state(shop["ready"]) == "ready"
    assert [state(shop[name]) for name in ("last", "failed", "delayed")] == ["cancelled"] * 3
    assert "queue:mail" in record.target


def test_a_single_job_is_named_in_the_question(dashboard, shop):
    assert dashboard.preview(RetryJobs(ids=(shop["gone"],)), OPS).question == "Retry fail order 7?"


@everywhere
def test_dead_letters_and_failed_jobs_of_a_filter_are_retried(dashboard, shop, state):
    command = RetryJobs(all=True)
    preview = dashboard.preview(command, OPS)
    assert [(each.state, each.count) for each in preview.effects] == [("delayed", 1), ("dead", 2)]
    record = dashboard.act(command, OPS, "ink is here")
    assert record.counts == {"replayed": 2, "rescheduled": 1}
    assert state(shop["dead"]) == "ready"
    assert state(shop["delayed"]) == "delayed"
    assert state(shop["second"]) == "done"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_jobs_that_are_done_are_retried_only_if_the_filter_names_them(dashboard, shop):
    named = RetryJobs(all=True, filter="state=done")
    assert [(each.state, each.count) for each in dashboard.preview(named, OPS).effects] == [("done", 2)]
    excluded = RetryJobs(all=True, filter="-state=dead")
    assert [(each.state, each.count) for each in dashboard.preview(excluded, OPS).effects] == [("delayed", 1)]
    assert dashboard.act(named, OPS, "again").counts == {"new": 2}


def test_a_filter_that_excludes_all_states_of_an_action_changes_nothing(dashboard, shop, state):
    command = CancelJobs(all=True, filter="-state=ready&-state=delayed&-state=parked&-state=running")
    with pytest.raises(ActionRefused, match="nothing to change"):
        dashboard.preview(command, OPS)
    with pytest.raises(ActionRefused):
        dashboard.act(command, OPS)
    assert state(shop["ready"]) == "ready"


@everywhere
def test_waiting_jobs_get_a_new_start(app, dashboard, shop):
    command = RescheduleJobs(ids=(shop["ready"], shop["dead"]), delay="2h")
    preview = dashboard.preview(command, OPS)
    assert (preview.total, preview.effects[0].text) == (1, "start in 2h, and not before")
    assert dashboard.act(command, OPS, "later").counts == {"rescheduled": 1, "too_late": 1}
    due = app.parts().find(shop["ready"]).due_at
    assert due - app.clock.now() == pytest.approx(7_200_000_000, abs=120_000_000)
    dashboard.act(RescheduleJobs(ids=(shop["ready"],), at="2030-01-01T09:00:00"), OPS, "later")
    assert app.parts().find(shop["ready"]).due_at == 1_893_488_400_000_000


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"delay": "soon"}, "is not a duration"),
        ({"at": "whenever"}, "is not a time"),
        ({"delay": "1h", "at": "noon"}, "not both"),
    ],
)
def test_a_start_that_means_nothing_is_refused(dashboard, shop, fields, says):
    with pytest.raises(ActionRefused, match=says):
        dashboard.preview(RescheduleJobs(ids=(shop["ready"],), **fields), OPS)


@everywhere
def test_ended_jobs_are_deleted(dashboard, shop, state):
    command = DeleteJobs(ids=(shop["first"], shop["dead"], shop["ready"]))
    preview = dashboard.preview(command, OPS)
    assert (preview.total, preview.is_final) == (2, True)
    assert dashboard.act(command, OPS, "clean").counts == {"deleted": 2, "not_ended": 1}
    assert (state(shop["first"]), state(shop["dead"]), state(shop["ready"])) == (None, None, "ready")


@everywhere
def test_no_action_reaches_a_queue_that_the_user_does_not_see(dashboard, shop, state):
    before = {name: state(id) for name, id in shop.items()}
    other = (shop["ready"], shop["second"], shop["cancelled"])
    for command in (CancelJobs(ids=other), RetryJobs(ids=other), DeleteJobs(ids=other), RescheduleJobs(ids=other)):
        with pytest.raises(ActionRefused, match="no job of the selection is known"):
            dashboard.preview(command, CLERK)
        assert dashboard.act(command, CLERK).counts == {}
    for command in (CancelJobs(all=True, filter="queue=default"), DeleteJobs(all=True, filter="queue=d*")):
        with pytest.raises(ActionRefused):
            dashboard.preview(command, CLERK)
        assert dashboard.act(command, CLERK).counts == {}
    assert {name: state(id) for name, id in shop.items()} == before
    assert dashboard.act(DeleteJobs(all=True), CLERK).counts == {"deleted": 2}
    assert state(shop["first"]) == "done"


def test_roles_and_actions_are_checked(dashboard, shop):
    viewer = Access(user="ann")
    for command in (CancelJobs(ids=("x",)), RetryJobs(ids=("x",)), RescheduleJobs(ids=("x",)), DeleteJobs(ids=("x",))):
        with pytest.raises(AccessDenied):
            dashboard.preview(command, viewer)
    operator = replace(viewer, role="operator")
    with pytest.raises(AccessDenied):
        dashboard.act(DeleteJobs(ids=(shop["dead"],)), operator)
    with pytest.raises(AccessDenied):
        dashboard.act(CancelJobs(ids=(shop["ready"],)), replace(operator, actions=frozenset({"jobs.retry"})))


@pytest.mark.parametrize("filter", ["state=ded", "stat=dead", "queue=", "nonsense", "since=soon", "%00=%00"])
def test_a_bad_filter_changes_nothing(dashboard, shop, state, filter):
    with pytest.raises(InvalidFilter):
        dashboard.act(CancelJobs(all=True, filter=filter), OPS)
    assert state(shop["ready"]) == "ready"


def test_nothing_selected_is_refused(dashboard, shop):
    with pytest.raises(ActionRefused, match="no job is selected"):
        dashboard.preview(CancelJobs(filter="queue=mail"), OPS)
    with pytest.raises(ActionRefused, match="at most 1000"):
        dashboard.preview(CancelJobs(ids=tuple(map(str, range(1001)))), OPS)
    with pytest.raises(ActionRefused, match="the selected jobs are 1 dead; only"):
        dashboard.preview(CancelJobs(ids=(shop["dead"],)), OPS)


def test_a_large_action_works_in_steps_and_can_be_stopped(app, add, dashboard, monkeypatch):
    monkeypatch.setattr(job_selection, "STEP", 10)
    app.enqueue_many(add.build(number) for number in range(25))
    steps = CancelJobs(all=True, before=app.clock.now()).steps(dashboard.sources, OPS)
    counts = [step for step in steps if step]
    assert counts == [{"cancelled": 10}, {"cancelled": 10}, {"cancelled": 5}]


def test_an_action_on_a_filter_ends_with_a_limit(app, add, dashboard, monkeypatch):
    monkeypatch.setattr(job_selection, "MAX_SELECTED", 7)
    app.enqueue_many(add.build(number) for number in range(25))
    assert dashboard.act(CancelJobs(all=True), OPS).counts == {"cancelled": 7}


def test_a_long_selection_is_counted_as_far_as_the_budget_goes(app, add, dashboard, monkeypatch):
    monkeypatch.setattr(job_selection, "MAX_READ", 20)
    app.enqueue_many(add.using(name=f"n{number}").build(number) for number in range(120))
    preview = dashboard.preview(CancelJobs(all=True, filter="text=n"), OPS)
    assert preview.question.startswith("Cancel more than")
    assert preview.total >= 20


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({}, "No job was changed."),
        ({"cancelled": 1}, "1 job was cancelled."),
        (
            {"cancelled": 1200, "asked": 1, "too_late": 2},
            "1,200 jobs were cancelled, 1 was asked to stop, 2 had ended before.",
        ),
        ({"new": 1}, "1 job runs again as a new job."),
    ],
)
def test_the_outcome_is_told_in_a_sentence(counts, text):
    assert outcome_text(counts) == text


@pytest.mark.parametrize(
    ("back", "kept"),
    [("/jobs?a=1", "/jobs?a=1"), ("//evil", ""), ("javascript:alert(1)", ""), ("/\\evil", ""), ("/a\nb", "")],
)
def test_the_page_for_a_new_start_leads_only_to_this_dashboard(dashboard, shop, back, kept):
    page = dashboard.read(RescheduleQuery(ids=(shop["ready"],), back=back), OPS)
    assert (page.back, page.timezone) == (kept, "UTC")


def test_a_job_on_the_page_offers_what_its_state_allows(dashboard, shop):
    operator = Access(user="ann", role="operator")
    assert dashboard.read(OneJobQuery(id=shop["dead"]), operator).changes == ("retry",)
    assert dashboard.read(OneJobQuery(id=shop["ready"]), Access(user="ann")).changes == ()
