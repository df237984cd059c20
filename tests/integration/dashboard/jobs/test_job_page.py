"""The page of one job, its comparison with another, and who may see what of it."""

from dataclasses import replace

import pytest

from tenure import Backoff, Context, Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.compare import CompareQuery, diff
from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.job import OneJobQuery
from tenure.errors import JobNotFound
from tenure.testing import FakeClock
from tenure.wire.signing import new_key

everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "redis", "postgres", "mariadb"], indirect=True)
where_payloads_are_kept = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
OPS = everything("ops")


@pytest.fixture
def show(dashboard, shop):
    return lambda name, access=OPS: dashboard.read(OneJobQuery(id=shop.get(name, name)), access)


@everywhere
def test_a_dead_letter_is_shown_with_its_attempts_and_why_it_died(show):
    page = show("gone")
    assert (page.state, page.handler, page.name, page.max_tries) == ("dead", "fail", "order 7", 1)
    assert "all allowed attempts failed" in page.explanation[0].text
    assert [step.title for step in page.steps[:2]] == ["Moved to the dead letters", "Attempt 1 failed"]
    assert page.steps[-1].title == "Enqueued"
    failed = page.steps[1]
    assert (failed.error_type, failed.error, failed.is_open) == ("ValueError", "connection refused", True)
    assert "raise ValueError(text)" in failed.trace
    assert (page.payload, page.payload_note) == ({"text": "connection refused"}, None)
    assert page.changes == ("retry", "delete")
    assert page.edit_fault is None


def test_a_job_in_backoff_shows_the_wait_for_its_next_attempt(show):
    page = show("failed")
    assert [step.title for step in page.steps][:2] == ["Waits", "Attempt 1 failed"]
    assert (page.steps[0].place, page.steps[0].until) == ("backoff, fixed", page.facts.due_at)
    assert (page.facts.failures, page.facts.max_retries, page.facts.key_id) == (1, 1, "k1")
    assert page.changes == ("retry", "cancel", "reschedule")
    assert "has not ended" in page.edit_fault


@everywhere
def test_a_job_that_is_done_shows_its_result(show):
    page = show("second")
    assert (page.result, page.result_note, page.result_is_text) == ({"sum": 3}, None, False)
    assert page.steps[0].title == "Attempt 1 succeeded"
    assert page.facts.tags == ("tenant=1", "big")
    assert show("cancelled").result_note == "None: the job is cancelled."
    assert "Not yet" in show("ready").result_note


@where_payloads_are_kept
def test_a_payload_past_its_age_is_shown_as_deleted(app, shop, show):
    app.jobs.forget([shop["second"]])
    page = show("second")
    assert page.payload is None
    assert page.payload_note == "This payload is past its age of 1 day and was deleted. The job stays in the history."
    assert page.result_note == "The result was deleted. The job stays in the history."
    assert page.edit_fault is not None


@where_payloads_are_kept
def test_secrets_of_payload_meta_and_result_are_masked(app, dashboard):
    @app.job
    def login(user: str, password: str) -> dict[str, str]:
        return {"user": user, "token": "abcdef"}

    id = login.using(meta={"api_key": "x1", "tenant": 7}).enqueue("ann", "hunter2").id
    app.worker("default", burst=True).run()
    page = dashboard.read(OneJobQuery(id=id), OPS)
    assert page.payload == {"user": "ann", "password": "***"}
    assert page.meta == {"api_key": "***", "tenant": 7}
    assert page.result == {"user": "ann", "token": "***"}


def test_the_hook_redacts_what_is_shown(show):
    hidden = replace(
        OPS, redact=lambda job: replace(job, payload="hidden", meta={}, output=None, name=None, tags=(), history=())
    )
    page = show("second", hidden)
    assert (page.payload, page.result, page.name, page.facts.tags) == ("hidden", None, None, ())
    assert [step.title for step in page.steps] == ["Done", "Enqueued"]


@everywhere
def test_a_job_of_another_queue_is_as_unknown_as_one_that_does_not_exist(show):
    clerk = Access(user="clerk", role="admin", queues=("mail",))
    assert show("gone", clerk).handler == "fail"
    with pytest.raises(JobNotFound) as hidden:
        show("second", clerk)
    with pytest.raises(JobNotFound) as unknown:
        show("01a1ec6a-0000-7000-8000-000000000000", clerk)
    assert str(hidden.value).partition("is known here")[2] == str(unknown.value).partition("is known here")[2]
    with pytest.raises(JobNotFound):
        show("\0\n")


def test_a_running_job_shows_its_progress_and_an_estimate(tmp_path):
    clock = FakeClock()
    with Tenure(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", clock=clock, keys=[new_key().dump()]) as app:
        pages = []
        dashboard = Dashboard(app)

        @app.job(max_retries=2)
        def feed(ctx: Context) -> None:
            ctx.progress(30, 120)
            pages.append(dashboard.read(OneJobQuery(id=ctx.id), OPS))

        feed.enqueue()
        app.worker("default", burst=True).run()
        dashboard.close()
    (page,) = pages
    assert (page.state, page.attempt, page.max_tries) == ("leased", 1, 3)
    assert page.steps[0].title == "Attempt 1 runs"
    assert page.changes == ("cancel",)


@where_payloads_are_kept
def test_followers_are_linked_once_they_exist(app, dashboard):
    @app.job
    def tell(text: str) -> None: ...

    @app.job(queue="mail")
    def work() -> None: ...

    id = work.using(then=[tell.build("done")], on_failure=[tell.build("dead")], chain=[tell.build("next")]).enqueue().id
    before = dashboard.read(OneJobQuery(id=id), OPS).followers
    assert [(each.when, each.handler, each.id) for each in before] == [
        ("when done", "tell", None),
        ("when dead", "tell", None),
        ("next in the chain", "tell", None),
    ]
    app.worker("mail", "default", burst=True).run()
    after = dashboard.read(OneJobQuery(id=id), OPS).followers
    assert [(each.when, each.state) for each in after] == [
        ("when done", "done"),
        ("when dead", None),
        ("next in the chain", "done"),
    ]
    follower = dashboard.read(OneJobQuery(id=after[0].id), OPS)
    assert follower.facts.parent == id
    clerk = Access(user="clerk", queues=("mail",))
    assert dashboard.read(OneJobQuery(id=id), clerk).followers == ()


@where_payloads_are_kept
def test_a_retried_job_names_the_one_that_it_repeats(app, shop, dashboard):
    new = app.jobs.retry(shop["second"]).new_ids[shop["second"]].id
    assert dashboard.read(OneJobQuery(id=new), OPS).facts.retry_of == shop["second"]


@where_payloads_are_kept
def test_a_message_of_another_key_is_shown_without_its_payload(app, shop, dashboard):
    other = Tenure(app.settings.url, keys=[new_key("k9").dump()])

    @other.job(name="add")
    def add(a: int) -> int:
        return a

    with other:
        id = add.enqueue(1).id
    page = dashboard.read(OneJobQuery(id=id), OPS)
    assert page.payload is None
    assert "k9" in page.payload_note
    assert page.facts.key_id == "k9"
    assert page.facts.max_retries is None


def test_two_jobs_are_compared_field_by_field(dashboard, shop):
    page = dashboard.read(CompareQuery(id=shop["dead"], other=shop["gone"]), OPS)
    signs = {(row.sign, row.text) for row in page.rows}
    assert ("+", "name: order 7") in signs
    assert ("-", '  "text": "out of paper"') in signs
    assert ("+", '  "text": "connection refused"') in signs
    assert any(row.sign == "fold" and "queue, priority" in row.text for row in page.rows)
    assert not page.is_equal
    assert dashboard.read(CompareQuery(id=shop["dead"], other=shop["dead"]), OPS).is_equal
    assert dashboard.read(CompareQuery(id=shop["dead"], other=shop["gone"][-8:]), OPS).second.id == shop["gone"]
    assert dashboard.read(CompareQuery(id=shop["dead"]), OPS).second is None
    with pytest.raises(JobNotFound):
        dashboard.read(CompareQuery(id=shop["dead"], other="nobody"), OPS)


def test_long_equal_parts_of_a_value_are_folded():
    lines = {str(number): number for number in range(50)}
    rows = list(diff({"payload": lines}, {"payload": {**lines, "49": 0}}))
    assert [row.sign for row in rows].count("fold") == 1
    assert len(rows) < 12


def test_values_of_many_lines_are_compared_up_to_a_limit():
    one, two = {"payload": list(range(3000))}, {"payload": list(range(3000, 6000))}
    assert "the rest is not compared" in list(diff(one, two))[-1].text


def test_a_long_history_says_how_much_of_it_is_gone(app, dashboard):
    @app.job(max_retries=30, backoff=Backoff("none"))
    def flaky() -> None:
        raise OSError("again")

    id = flaky.enqueue().id
    app.worker("default", burst=True).run()
    page = dashboard.read(OneJobQuery(id=id), OPS)
    assert page.steps[-2].title == "6 earlier attempts are no longer kept"
