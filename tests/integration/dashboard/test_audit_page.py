"""The audit page: what users did, filtered, page by page, and never more than its bounds."""

import pytest

from tenure import Tenure
from tenure.app.dashboard import audit
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.audit import AuditFilter, AuditQuery, describe_result, read_audit
from tenure.app.dashboard.queues import PauseQueue, ResumeQueue
from tenure.backends.records import AuditRecord
from tenure.clock import MICROSECOND
from tenure.definition.job import new_id
from tenure.errors import AccessDenied, InvalidFilter
from tests.integration.dashboard.conftest import EVERYWHERE

ADMIN = everything("ada")
DAY = 86_400 * MICROSECOND


def save(app, count=1, *, user="ada", action="jobs.cancel", age=0, **fields):
    log = app.parts().audit
    for number in range(count):
        at = app.clock.now() - age
        log.save(AuditRecord(id=new_id(), at=at, actor=user, action=action, target=f"job-{number}", **fields))


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_actions_are_listed_with_the_newest_first(shop, view):
    shop.define("send", {"user": 1}).dispatch()
    dashboard = view()
    dashboard.act(PauseQueue(queue="emails"), ADMIN, "migration", origin="web")
    dashboard.act(ResumeQueue(queue="emails"), everything("bob"), origin="cli")

    resumed, paused = dashboard.read(AuditQuery(), ADMIN).rows

    assert (resumed.user, resumed.action, resumed.result, resumed.why, resumed.origin) == (
        *("bob", "queue.resume", "1 resumed", None),
        "cli",
    )
    assert (paused.user, paused.target, paused.why, paused.state) == ("ada", "emails", "migration", "done")
    assert paused.at <= resumed.at


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_records_are_filtered_and_shown_in_pages(shop, view, monkeypatch):
    monkeypatch.setattr(audit, "PAGE_SIZE", 2)
    save(shop, user="eve", action="queue.pause", age=2 * DAY)
    save(shop, 3, user="eve")
    save(shop, 2, user="ada", action="queue.drain")
    dashboard = view()

    first = dashboard.read(AuditQuery(user="eve"), ADMIN)
    second = dashboard.read(AuditQuery(user="eve", before=first.next), ADMIN)

    assert [row.action for row in (*first.rows, *second.rows)] == [*["jobs.cancel"] * 3, "queue.pause"]
    assert second.next is None
    assert [row.user for row in dashboard.read(AuditQuery(action="queue."), ADMIN).rows] == ["ada", "ada"]
    recent = dashboard.read(AuditQuery(user="eve", action="queue.pause", since="24h"), ADMIN)
    assert (recent.rows, recent.next) == ((), None)


def test_a_search_stops_after_a_bounded_number_of_records(shop, monkeypatch):
    monkeypatch.setattr(audit, "MAX_READ", 4)
    monkeypatch.setattr(audit, "_READ_SIZE", 2)
    save(shop, user="eve")
    save(shop, 6, user="ada")
    log = shop.parts().audit

    part = read_audit(log, AuditFilter(user="eve"), 10)
    rest = read_audit(log, AuditFilter(user="eve"), 10, part.next)

    assert (part.records, part.stopped) == ((), True)
    assert ([record.actor for record in rest.records], rest.stopped) == (["eve"], False)


def test_a_page_without_filter_reads_only_what_it_shows(shop, monkeypatch):
    save(shop, 9)
    log = shop.parts().audit
    limits = []
    page = log.page
    monkeypatch.setattr(
        log, "page", lambda *, limit, before=None: limits.append(limit) or page(limit=limit, before=before)
    )

    part = read_audit(log, AuditFilter(), 3)

    assert (len(part.records), limits) == (3, [4])


def test_a_wrong_time_is_refused(view):
    with pytest.raises(InvalidFilter, match="since must be a time such as 30m, 24h or 7d, not 'yesterday'"):
        view().read(AuditQuery(since="yesterday"), ADMIN)


@pytest.mark.parametrize(
    "access", [Access(user="eve"), Access(user="max", role="operator", queues=("emails",))], ids=["viewer", "limited"]
)
def test_only_operators_of_all_queues_read_the_log(view, access):
    with pytest.raises(AccessDenied):
        view().read(AuditQuery(), access)


def test_a_backend_without_a_log_says_so(view):
    with Tenure("sync://", environment="development") as app:
        assert view(app).read(AuditQuery(), ADMIN).rows is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"counts": {"cancelled": 1000, "too_late": 2}, "total": 1509}, "1,000 cancelled, 2 too late of 1,509"),
        ({"counts": {"paused": 1}}, "1 paused"),
        ({"counts": {"reset": 0}}, "none"),
        ({"state": "running", "total": 7}, "running of 7"),
        ({"counts": {"cancelled": 7}, "total": 7}, "7 cancelled"),
    ],
)
def test_counts_are_told_in_words(fields, words):
    assert describe_result(AuditRecord(id="1", at=0, actor="ada", action="a", target="t", **fields)) == words
