"""Retry with edited arguments: a new job, sealed with the dashboard's own key, without anything hidden being lost."""

from dataclasses import replace

import msgspec
import pytest

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.job_edit import EditJob, EditJobQuery, merge_hidden
from tenure.errors import AccessDenied, ActionRefused, JobNotFound
from tenure.wire.envelope import peek

everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "redis", "postgres", "mariadb"], indirect=True)
OPS = everything("ops")


@pytest.fixture
def charge(app):
    @app.job(queue="mail", max_retries=0)
    def charge(order: int, password: str, cards: list[dict[str, str]]) -> None:
        raise OSError("declined")

    return charge


@pytest.fixture
def dead(app, charge):
    secret = [{"name": "a", "token": "t1"}, {"name": "b", "token": "t2"}]
    id = charge.using(idempotency_key="once", meta={"tenant": 7}, tags=["x"]).enqueue(1, "hunter2", secret).id
    app.worker("mail", burst=True).run()
    return id


def new_job(app, id):
    (found,) = [job for job in app.jobs.find(state="ready", queue="mail") if job.id != id]
    return app.parts().find(found.id)


@everywhere
def test_a_job_runs_again_with_other_arguments(app, dashboard, dead):
    shown = dashboard.read(EditJobQuery(id=dead), OPS)
    assert (shown.fault, shown.has_hidden, shown.is_checked, shown.key_id) == (None, True, True, "k1")
    assert "hunter2" not in shown.payload
    edited = shown.payload.replace('"order": 1', '"order": 2')
    record = dashboard.act(EditJob(id=dead, payload=edited), OPS, "the right order")
    assert record.counts == {"new": 1}
    envelope = peek(new_job(app, dead).body)
    assert msgspec.json.decode(envelope.payload) == {
        "order": 2,
        "password": "hunter2",
        "cards": [{"name": "a", "token": "t1"}, {"name": "b", "token": "t2"}],
    }
    assert (envelope.meta, envelope.kid, envelope.idempotency_key) == ({"tenant": 7, "retry_of": dead}, "k1", None)
    assert app.parts().find(dead).state == "dead"


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ("{", "the new payload is not JSON"),
        ('{"order": 1}', "does not fit its handler"),
        ('{"order": "two", "password": "x", "cards": []}', "does not fit its handler"),
        (
            '{"order": 1, "password": "x***", "cards": []}',
            r"\$.password is 'x\*\*\*', which is how hidden values are shown",
        ),
        ('{"order": 1, "password": "x", "cards": [{"name": "b", "token": "***"}]}', r"\$.cards is a list with hidden"),
    ],
)
def test_a_payload_that_cannot_be_run_is_refused(app, dashboard, dead, payload, says):
    with pytest.raises(ActionRefused, match=says):
        dashboard.preview(EditJob(id=dead, payload=payload), OPS)
    with pytest.raises(ActionRefused):
        dashboard.act(EditJob(id=dead, payload=payload), OPS, "try")
    assert list(app.jobs.find(state="ready")) == []


def test_a_job_that_waits_cannot_be_edited(app, charge, dashboard):
    id = charge.enqueue(1, "x", []).id
    assert "has not ended" in dashboard.read(EditJobQuery(id=id), OPS).fault
    with pytest.raises(ActionRefused, match="has not ended"):
        dashboard.act(EditJob(id=id, payload="{}"), OPS)


def test_only_operators_of_its_queue_edit_a_job(dashboard, dead):
    with pytest.raises(AccessDenied):
        dashboard.read(EditJobQuery(id=dead), Access(user="ann"))
    with pytest.raises(AccessDenied):
        dashboard.act(EditJob(id=dead, payload="{}"), Access(user="ann"))
    with pytest.raises(JobNotFound):
        dashboard.act(EditJob(id=dead, payload="{}"), Access(user="ann", role="operator", queues=("default",)))


def test_a_key_without_the_scope_cannot_seal_the_job(app, dead, url):
    scopes = {"k1": {"queues": ["default"]}}
    with Tenure(url, keys=[*app.settings.keys], scopes=scopes) as narrow:
        dashboard = Dashboard(narrow)
        page = dashboard.read(EditJobQuery(id=dead), OPS) if url != "memory://" else None
        if page is not None:
            assert "may not sign" in page.fault
            with pytest.raises(ActionRefused, match="may not sign"):
                dashboard.act(EditJob(id=dead, payload="{}"), OPS)
        dashboard.close()


def test_what_the_hook_hides_is_kept(app, dashboard, dead):
    hidden = replace(OPS, redact=lambda job: replace(job, payload={"order": job.payload["order"]}))
    assert dashboard.read(EditJobQuery(id=dead), hidden).payload == '{\n  "order": 1\n}'
    dashboard.act(EditJob(id=dead, payload='{"order": 5}'), hidden, "other order")
    payload = msgspec.json.decode(peek(new_job(app, dead).body).payload)
    assert (payload["order"], payload["password"], len(payload["cards"])) == (5, "hunter2", 2)


@pytest.mark.parametrize(
    ("original", "shown", "edited", "merged"),
    [
        ({"a": 1, "token": "s"}, {"a": 1, "token": "***"}, {"a": 2, "token": "***"}, {"a": 2, "token": "s"}),
        ({"a": 1, "token": "s"}, {"a": 1, "token": "***"}, {"token": "new"}, {"token": "new"}),
        ({"a": {"token": 1}}, {"a": {"token": "***"}}, {"a": {"b": 2, "token": "***"}}, {"a": {"b": 2, "token": 1}}),
        ({"u": "http://x@h"}, {"u": "http://***@h"}, {"u": "http://***@h", "n": 1}, {"u": "http://x@h", "n": 1}),
        ([{"token": "s"}, 1], [{"token": "***"}, 1], [{"token": "t"}], [{"token": "t"}]),
        ([{"token": "s"}, 1], [{"token": "***"}, 1], [{"token": "***"}, 2], [{"token": "s"}, 2]),
        ([1, 2], [1, 2], [1], [1]),
        ({"a": 1}, {"a": 1}, {"a": True}, {"a": True}),
        ({"a": {"b": 1}}, {"a": "hidden"}, {"a": {"c": 2}}, {"a": {"c": 2}}),
        ("***", "***", "***", "***"),
        (None, None, None, None),
    ],
)  # fmt: skip
def test_what_is_left_as_it_is_shown_keeps_its_value(original, shown, edited, merged):
    found = merge_hidden(original, shown, edited)
    assert (found, type(found)) == (merged, type(merged))
    assert msgspec.json.encode(found) == msgspec.json.encode(merged)


@pytest.mark.parametrize("edited", [{"other": "***"}, {"token": "x***"}, {"list": ["***"]}, "***"])
def test_a_mask_is_never_written(edited):
    with pytest.raises(ActionRefused, match="hidden values are shown"):
        merge_hidden({"token": "s", "list": [1]}, {"token": "***", "list": [1]}, edited)
