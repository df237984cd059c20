"""The jobs page: which jobs it shows, in pages, with counts, and only those of the user's queues."""

from dataclasses import replace

import pytest

from tenure import Tenure
from tenure.app.dashboard import job_search
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.filters import from_canonical
from tenure.app.dashboard.job_now import Clause
from tenure.app.dashboard.jobs import JobsQuery
from tenure.backends.ledger import TickRecord
from tenure.web.fields import from_fields

everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "redis", "postgres", "mariadb"], indirect=True)
OPS = everything("ops")


@pytest.fixture
def ask(dashboard):
    def ask(query="", access=OPS, **more):
        pairs = from_canonical(query).pairs() if query else []
        parameters = [*pairs, *((name, str(value)) for name, value in more.items())]
        return dashboard.read(from_fields(JobsQuery, parameters, where="the page"), access)

    return ask


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["last", "ready", "cancelled", "delayed", "failed", "gone", "dead", "second", "first"]),
        ("state=dead", ["gone", "dead"]),
        ("state=dead&state=ready", ["ready", "last", "gone", "dead"]),
        ("state=dead&state=ready&sort=newest", ["last", "ready", "gone", "dead"]),
        ("-state=dead&-state=done", ["ready", "last", "failed", "delayed", "cancelled"]),
        ("queue=mail", ["last", "delayed", "failed", "gone", "dead"]),
        ("queue=post", ["last", "delayed", "failed", "gone", "dead"]),
        ("queue=ma*&state=dead", ["gone", "dead"]),
        ("-queue=mail", ["ready", "cancelled", "second", "first"]),
        ("handler=fail", ["failed", "gone", "dead"]),
        ("handler=f*", ["failed", "gone", "dead"]),
        ("-handler=add", ["failed", "gone", "dead"]),
        ("tag=tenant%3D1", ["second", "first"]),
        ("tag=big&tag=tenant%3D1", ["second", "first"]),
        ("tag=tenant%3D1&-tag=big", ["first"]),
        ("reason=retries*", ["gone", "dead"]),
        ("error=PAPER", ["dead"]),
        ("text=order", ["gone"]),
        ("text=valueerror&text=ink", ["failed"]),
        ("text=valueerror&-text=ink", ["gone", "dead"]),
        ("since=1h", ["last", "ready", "cancelled", "delayed", "failed", "gone", "dead", "second", "first"]),
        ("until=1h", []),
        ("since=2000-01-01&until=2001-01-01", []),
        ("sort=oldest&state=dead", ["dead", "gone"]),
        ("queue=nowhere", []),
    ],
)  # fmt: skip
def test_the_filter_selects_jobs(ask, names, query, found):
    assert names(ask(query).rows) == found


@everywhere
def test_pages_follow_one_another_without_gaps_and_repeats(app, add, ask):
    ids = [handle.id for handle in app.enqueue_many(add.build(number) for number in range(60))]
    first = ask(size=25)
    assert (first.first, first.last, first.newer, first.total.value) == (1, 25, None, 60)
    second = ask(**dict(pair.split("=") for pair in first.older.split("&")))
    third = ask(**dict(pair.split("=") for pair in second.older.split("&")))
    assert (third.first, third.last, third.older) == (51, 60, None)
    shown = [row.id for page in (first, second, third) for row in page.rows]
    assert sorted(shown) == sorted(ids)
    back = ask(**dict(pair.split("=") for pair in third.newer.split("&")))
    start = ask(**dict(pair.split("=") for pair in back.newer.split("&")))
    assert [row.id for row in (*start.rows, *back.rows)] == shown[:50]


@everywhere
def test_the_pages_of_a_filter_with_gaps_follow_one_another(app, add, ask):
    for number in range(120):
        add.using(name="odd" if number % 2 else "even", tags=["all"]).enqueue(number)
    for query in ("text=odd", "text=odd&state=ready", "text=odd&tag=all"):
        first = ask(query, size=25)
        second = ask(query, size=25, after=dict(pair.split("=") for pair in first.older.split("&"))["after"])
        third = ask(query, size=25, after=dict(pair.split("=") for pair in second.older.split("&"))["after"])
        shown = [row.id for page in (first, second, third) for row in page.rows]
        assert (len(shown), len(set(shown)), third.older) == (60, 60, None)


@everywhere
def test_tabs_count_the_jobs_of_each_state(shop, dashboard, ask):
    dashboard.sources.recorder.read_now()
    counts = {tab.state: tab.count.value for tab in ask("state=dead&queue=mail").tabs}
    expected = {"ready": 1, "delayed": 2, "parked": 0, "leased": 0, "done": 0, "dead": 2, "cancelled": 0, "expired": 0}
    assert counts == {**expected, None: 5}
    assert ask("state=dead&queue=mail").total.value == 2
    narrow = {tab.state: tab.count for tab in ask("text=order").tabs}
    assert set(narrow.values()) == {None}


def test_a_row_says_what_the_job_does_now(app, shop, dashboard, ask, names):
    app.guards.pause("mail", "new ink")
    dashboard.sources.recorder.read_now()
    rows = dict(zip(names(page := ask().rows), page, strict=True))
    assert rows["ready"].now == Clause("no worker listens on default")
    assert rows["last"].now == Clause("its queue is paused")
    assert rows["gone"].now == Clause("ValueError: connection refused")
    assert rows["failed"].now.text == "next attempt at"
    assert rows["second"].now.text == "took"
    assert (rows["failed"].tries, rows["failed"].max_tries) == (1, 2)
    assert (rows["second"].name, rows["second"].handler) == ("sum", "add")


def test_users_see_the_jobs_of_their_queues_only(shop, ask, names):
    clerk = Access(user="clerk", role="operator", queues=("mail",))
    for query in ("", "state=done", "state=ready", "queue=default", "tag=big", "text=sum", "since=1h", "sort=oldest"):
        seen = set(names(ask(query, clerk).rows))
        assert seen <= {"last", "delayed", "failed", "gone", "dead"}
    assert names(ask("", clerk).rows) == ["last", "delayed", "failed", "gone", "dead"]
    assert names(ask(f"id={shop['second']}", clerk).rows) == []
    assert names(ask("", replace(clerk, queues=())).rows) == []
    assert {tab.state: tab.count.value for tab in ask("", clerk).tabs}["done"] == 0


def test_a_search_does_not_tell_what_is_masked_or_redacted(app, ask):
    @app.job
    def login(user: str) -> dict[str, str]:
        return {"token": "abcdef", "user": user}

    login.enqueue("ann")
    app.worker("default", burst=True).run()
    assert len(ask("text=ann").rows) == 1
    assert ask("text=abcdef").rows == ()
    hidden = replace(OPS, redact=lambda job: replace(job, output=None, name="hidden"))
    assert ask("text=ann", hidden).rows == ()
    assert [row.name for row in ask("", hidden).rows] == ["hidden"]


@pytest.mark.parametrize("part", [slice(None), slice(None, 18), slice(-8, None)], ids=["whole", "beginning", "end"])
def test_a_text_that_names_one_job_leads_to_it(shop, ask, part):
    assert ask(q=shop["dead"][part]).redirect == f"/jobs/{shop['dead']}"
    assert ask(q=f"id:{shop['dead'][part]}").redirect == f"/jobs/{shop['dead']}"
    clerk = Access(user="clerk", queues=("default",))
    assert ask(q=shop["dead"][part], access=clerk).redirect != f"/jobs/{shop['dead']}"


def test_a_text_is_added_to_the_filter(shop, ask):
    assert ask(q="queue:mail state:dead").redirect == "/jobs?state=dead&queue=mail"
    assert ask("queue=mail", q="refused").redirect == "/jobs?queue=mail&text=refused"
    assert ask(q="12").redirect == "/jobs?text=12"


def test_a_bad_filter_shows_no_rows_and_a_suggestion(shop, dashboard):
    page = dashboard.read(JobsQuery(state=("ded",)), OPS)
    assert (page.status, page.rows, page.actions, page.total) == (400, (), (), None)
    assert (page.fault.suggestion, page.fault.query) == ("dead", "state=dead")
    assert [(chip.key, chip.value) for chip in page.chips] == [("state", "ded")]
    typed = dashboard.read(JobsQuery(queue=("mail",), q="stat:dead"), OPS)
    assert (typed.status, typed.fault.query) == (400, "state=dead&queue=mail")


@pytest.mark.parametrize("cursor", ["x", "W10", "AAAA", "W251bGxd", "WzEsWyJub3BlIiwiIiwiIiwieCJdXQ"])
@pytest.mark.parametrize("state", [(), ("ready",), ("done",)])
def test_a_broken_cursor_is_a_bad_filter(shop, dashboard, cursor, state):
    page = dashboard.read(JobsQuery(state=state, after=cursor), OPS)
    assert (page.status, page.rows) == (400, ())


@everywhere
def test_a_cursor_that_no_backend_made_is_a_bad_filter(shop, dashboard):
    for order, state in (("states", "ready"), ("states", "done"), ("states", "no"), ("newest", ""), ("tags", "")):
        place = job_search.SearchPlace(order, state, "default", '"; nonsense')
        cursor = job_search.PageCursor(50, place).encode()
        page = dashboard.read(JobsQuery(after=cursor, tag=("big",) if order == "tags" else ()), OPS)
        assert page.fault is not None or page.rows == ()


def test_a_search_stops_at_its_budget_and_goes_on(app, add, ask, monkeypatch):
    monkeypatch.setattr(job_search, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(job_search, "_FIRST_SLICE", 10)
    wanted = add.using(name="needle").enqueue(0).id
    app.enqueue_many(add.build(number) for number in range(15))
    first = ask("text=needle")
    assert (first.rows, first.stopped_after, first.hint) == ((), 10, None)
    second = ask("text=needle", after=first.older.partition("after=")[2])
    assert [row.id for row in second.rows] == [wanted]


def test_jobs_of_a_quiet_queue_are_found_behind_many_others(app, add, ask, monkeypatch):
    quiet = add.using(queue="quiet").enqueue(0).id
    app.enqueue_many(add.build(number) for number in range(30))
    monkeypatch.setattr(job_search, "MAX_READ", 10)
    page = ask("queue=quiet")
    assert ([row.id for row in page.rows], page.order, page.stopped_after) == ([quiet], "states", None)


def test_a_job_that_was_enqueued_before_and_ended_since_is_shown_once(app, add, dashboard, ask):
    early = add.enqueue(1).id
    at = app.clock.now()
    late = add.enqueue(2).id
    app.worker("default", burst=True).run()
    moment = job_search.moment_of
    job_search.moment_of = lambda text, now: at if text == "1h" else moment(text, now)
    try:
        page = ask("since=1h", size=25)
    finally:
        job_search.moment_of = moment
    assert [row.id for row in page.rows] == [late, early]


def test_nothing_found_says_what_would_be_found(shop, dashboard, ask):
    dashboard.sources.recorder.read_now()
    page = ask("queue=mail&state=expired")
    assert page.rows == ()
    assert (page.hint.term, page.hint.count.value, page.hint.query) == ("state:expired", 5, "queue=mail")
    wide = ask("text=nowhere&handler=fail")
    assert (wide.hint.term, wide.hint.count.value) == ("nowhere", 3)


def test_the_first_page_of_an_empty_backend_says_how_to_begin(ask, app):
    page = ask()
    assert page.first_run is not None
    assert page.first_run.url == app.settings.url.partition("?")[0] or page.first_run.url == app.settings.url
    assert ask("queue=mail").first_run is None


def test_actions_are_those_of_the_role(shop, ask):
    def offered(role):
        return [each.key for each in ask(access=Access(user="ann", role=role)).actions]

    assert offered("viewer") == []
    assert offered("operator") == ["retry", "cancel", "reschedule"]
    assert offered("admin") == ["retry", "cancel", "reschedule", "delete"]


def test_the_jobs_of_a_schedule_are_found_by_its_ticks(app, shop, ask, names):
    ticks = [
        TickRecord(id=shop[name], schedule="nightly", tick=number, due=number, state="enqueued")
        for number, name in enumerate(("first", "dead", "ready"))
    ]
    app.cron.ledger.enter(ticks)
    assert names(ask("schedule=nightly").rows) == ["ready", "dead", "first"]
    assert names(ask("schedule=nightly&state=dead").rows) == ["dead"]
    assert ask("schedule=weekly").rows == ()


@everywhere
def test_a_parked_job_says_which_guard_it_waits_for(app, ask):
    @app.job(breaker="stripe")
    def charge() -> None:
        """Waits for its breaker."""

    for _ in range(app.settings.breaker_threshold):
        with pytest.raises(OSError, match="down"), app.guards.breaker("stripe").closed():
            raise OSError("down")
    charge.enqueue()
    app.worker(burst=True).run()
    (listed,), (newest,) = (ask(query).rows for query in ("state=parked", ""))
    assert listed.now == newest.now == Clause("waits for breaker stripe")


def test_an_unknown_queue_is_no_fault_where_queues_must_be_known(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", queues=["default"], strict_queues=True) as app:
        dashboard = Dashboard(app)
        page = dashboard.read(JobsQuery(queue=("nowhere",)), OPS)
        dashboard.close()
    assert (page.rows, page.fault) == ((), None)
