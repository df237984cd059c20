"""`app.jobs`: jobs are found, counted, awaited, cancelled, retried, rescheduled and deleted."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from tenure import Backoff, Tenure
from tenure.errors import BackendError, InvalidFilter, InvalidJob, JobNotFound, ResultTimeout
from tenure.testing import FakeClock
from tenure.wire.signing import new_key
from tests.support.backend_urls import empty_backend

everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "redis", "postgres", "mariadb"], indirect=True)
where_payloads_are_kept = pytest.mark.parametrize("url", ["sqlite", "postgres", "mariadb"], indirect=True)


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return empty_backend(request, tmp_path)


@pytest.fixture
def app(url):
    with Tenure(url, keys=[new_key().dump()], aliases={"post": "mail"}) as app:
        yield app


@pytest.fixture
def add(app):
    @app.job
    def add(a: int) -> int:
        return a + 1

    return add


@pytest.fixture
def fail(app):
    @app.job(queue="mail", max_retries=1, backoff=Backoff("fixed", base=3600))
    def fail(text: str) -> None:
        raise ValueError(text)

    return fail


@pytest.fixture
def shop(app, add, fail):
    """Two jobs are done, one died, one waits for its next attempt, one is delayed and one is ready."""
    jobs = {
        "first": add.enqueue(1),
        "second": add.using(name="sum", meta={"tenant": "a"}).enqueue(2),
        "dead": fail.using(max_retries=0).enqueue("out of paper"),
        "failed": fail.enqueue("no ink"),
    }
    app.worker("default", "mail", burst=True).run()
    jobs["delayed"] = add.using(queue="mail", delay="1h", meta={"tenant": "a", "n": 1}).enqueue(3)
    jobs["ready"] = add.using(meta={"tenant": "b"}).enqueue(4)
    return jobs


def names(shop, found):
    by_id = {handle.id: name for name, handle in shop.items()}
    return [by_id.get(job.id, "new") for job in found]


def test_a_job_is_shown_with_all_that_is_known(app, shop):
    info = app.jobs.get(shop["delayed"])
    assert (info.state, info.payload, info.meta) == ("delayed", {"a": 3}, {"tenant": "a", "n": 1})
    assert info.due_at - info.enqueued_at == timedelta(hours=1)
    with pytest.raises(JobNotFound, match="no job 'nobody' is known here"):
        app.jobs.get("nobody")


@everywhere
def test_all_jobs_are_found_state_by_state(app, shop):
    assert names(shop, app.jobs.find()) == ["ready", "failed", "delayed", "second", "first", "dead"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ({"state": "done"}, ["second", "first"]),
        ({"state": ("dead", "ready")}, ["dead", "ready"]),
        ({"queue": "mail"}, ["failed", "delayed", "dead"]),
        ({"queue": "post", "state": "dead"}, ["dead"]),
        ({"handler": "fail"}, ["failed", "dead"]),
        ({"name": "sum"}, ["second"]),
        ({"text": "PAPER"}, ["dead"]),
        ({"newer": "1h"}, ["ready", "failed", "delayed", "second", "first", "dead"]),
        ({"older": "1h"}, []),
        ({"newer": datetime(2000, 1, 1, tzinfo=UTC), "older": datetime(2001, 1, 1, tzinfo=UTC)}, []),
        ({"meta": {"tenant": "a"}, "state": "delayed"}, ["delayed"]),
        ({"meta": {"tenant": "a", "n": 2}}, []),
        ({"limit": 2}, ["ready", "failed"]),
        ({"state": None, "queue": None, "text": None}, ["ready", "failed", "delayed", "second", "first", "dead"]),
    ],
    ids=repr,
)
def test_jobs_are_found_by_what_is_known_of_them(app, shop, search, found):
    assert names(shop, app.jobs.find(**search)) == found


def test_jobs_are_found_by_the_function_of_their_handler(app, shop, fail):
    assert names(shop, app.jobs.find(handler=fail)) == ["failed", "dead"]


def test_an_odd_search_is_refused(app, add):
    with pytest.raises(InvalidFilter, match="'finished' is not the state of a job; the states are ready, delayed"):
        app.jobs.find(state="finished")
    with pytest.raises(InvalidFilter, match="limit must be at least 1"):
        app.jobs.find(limit=0)
    with pytest.raises(InvalidFilter, match="'here' is not the cursor of a page"):
        app.jobs.find(after="here").page()
    with pytest.raises(InvalidJob, match="newer 'soon' is not a duration"):
        app.jobs.find(newer="soon")
    with pytest.raises(InvalidFilter, match='counted by "queue" or "handler"'):
        app.jobs.counts(by="name")
    app.enqueue_many(add.build(n) for n in range(3))
    cursor = app.jobs.find(limit=1).page().cursor
    with pytest.raises(InvalidFilter, match="a page of ready jobs does not fit a search for other states"):
        app.jobs.find(state="dead", after=cursor).page()


@everywhere
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_pages_show_every_job_once(app, shop, limit):
    found, cursor = [], None
    while True:
        page = app.jobs.find(limit=limit, after=cursor).page()
        assert len(page.jobs) <= limit
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    assert names(shop, found) == ["ready", "failed", "delayed", "second", "first", "dead"]


@everywhere
def test_pages_of_a_narrow_search_show_every_match_once(app, add):
    every = [add.using(name="odd" if n % 7 == 3 else "even").build(n) for n in range(300)]
    wanted = [id for id, job in zip(app.enqueue_many(every), every, strict=True) if job.name == "odd"]
    found, cursor = [], None
    for _ in range(100):
        page = app.jobs.find(name="odd", limit=10, after=cursor).page()
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == wanted
    assert [job.id for job in app.jobs.find(name="odd")] == wanted


def test_a_search_reads_only_as_far_as_the_caller_iterates(app, add, monkeypatch):
    app.enqueue_many(add.build(n) for n in range(2_000))
    read, jobs = [], app.parts().jobs
    page = jobs.page

    def counted(*args, **options):
        found = page(*args, **options)
        read.append(len(found[0]))
        return found

    monkeypatch.setattr(jobs, "page", counted)
    first = next(iter(app.jobs.find(handler="add")))
    assert (first.handler, sum(read)) == ("add", 100)
    assert len(list(app.jobs.find())) == 2_000


def test_a_search_does_not_stop_in_a_long_history(app, add):
    app.enqueue_many(add.build(n) for n in range(12_000))
    last = add.using(name="needle").enqueue(1)
    assert [job.id for job in app.jobs.find(name="needle")] == [last]


def test_the_infos_of_a_search_say_why_they_have_no_payload(app, shop):
    info = next(iter(app.jobs.find(state="ready")))
    assert (info.payload, info.unreadable) == (None, "lists have no payloads; app.jobs.get(id) reads one")


@everywhere
def test_jobs_are_counted_by_queue_and_by_handler(app, shop):
    counts = app.jobs.counts()
    assert (counts["default"]["done"], counts["default"]["ready"]) == (2, 1)
    assert (counts["mail"]["dead"], counts["mail"]["delayed"]) == (1, 2)
    by_handler = app.jobs.counts(by="handler")
    assert {handler: {state: n for state, n in each.items() if n} for handler, each in by_handler.items()} == {
        "add": {"ready": 1, "delayed": 1, "done": 2},
        "fail": {"delayed": 1, "dead": 1},
    }
    assert app.jobs.counts(by="handler", ended=False)["add"]["done"] == 0


def test_many_jobs_are_awaited(app, add, fail):
    ids = [add.enqueue(1), fail.using(max_retries=0).enqueue("x"), add.enqueue(2)]
    worker = threading.Thread(target=app.worker("default", "mail", burst=True).run)
    threading.Timer(0.1, worker.start).start()
    ended = app.jobs.wait(ids, timeout="60s")
    worker.join()
    assert [(id, info.state) for id, info in ended.items()] == [(ids[0], "done"), (ids[1], "dead"), (ids[2], "done")]
    assert all(type(id) is str for id in ended)
    assert app.jobs.wait(ids, timeout=0) == ended
    assert app.jobs.wait([]) == {}


def test_jobs_that_have_not_ended_in_time_are_named(app, shop):
    with pytest.raises(ResultTimeout, match=r"2 of 3 jobs have not ended within 0\.02 s") as caught:
        app.jobs.wait([shop["ready"], shop["first"], shop["failed"]], timeout=0.02)
    assert shop["ready"] in str(caught.value)
    assert shop["failed"] in str(caught.value)
    assert shop["first"] not in str(caught.value)
    with pytest.raises(JobNotFound, match="'nobody'"):
        app.jobs.wait([shop["ready"], "nobody"])


def test_the_jobs_of_another_backend_are_reached(app, add, tmp_path):
    other = f"sqlite:///{tmp_path}/other.db"
    handle = app.enqueue(add.build(1), other)
    assert [job.id for job in app.jobs.on(other).find()] == [handle]
    assert list(app.jobs.find()) == []
    assert app.jobs.on(other).cancel(all=True).counts == {"cancelled": 1}


def test_a_backend_without_records_says_so(app):
    with pytest.raises(BackendError, match="keeps no lists of jobs"):
        app.jobs.on("sync://").find()


@everywhere
def test_jobs_are_cancelled_by_id_or_by_a_search(app, shop):
    done = app.jobs.cancel([shop["ready"], shop["first"], "nobody"])
    assert done.results == {shop["ready"]: "cancelled", shop["first"]: "too_late", "nobody": "unknown"}
    assert done.ids == {"cancelled": (shop["ready"],), "too_late": (shop["first"],), "unknown": ("nobody",)}
    assert app.jobs.cancel(queue="mail").counts == {"cancelled": 2}
    assert (shop["failed"].state, shop["delayed"].state) == ("cancelled", "cancelled")
    assert app.jobs.cancel(all=True).results == {}


def test_a_change_needs_ids_or_a_search_or_all(app, shop):
    for change in (app.jobs.cancel, app.jobs.retry, app.jobs.reschedule, app.jobs.delete):
        for wrong in ({}, {"limit": 3}, {"queue": None}, {"ids": [], "queue": "mail"}, {"all": True, "queue": "mail"}):
            with pytest.raises(TypeError, match="all=True for every job: give exactly one of them"):
                change(**wrong)
        assert change([]).results == {}
    assert names(shop, app.jobs.find()) == ["ready", "failed", "delayed", "second", "first", "dead"]


@pytest.mark.parametrize("change", ["cancel", "retry", "reschedule", "delete"])
@pytest.mark.parametrize("search", [{"all": True}, {"state": ("done", "dead", "delayed", "ready")}, {"ids": True}])
def test_a_dry_run_foresees_what_is_done_and_changes_nothing(app, shop, change, search):
    if "ids" in search:
        search = {"ids": [*shop.values(), "nobody"]}
    before = [app.jobs.get(id) for id in shop.values()]
    foreseen = getattr(app.jobs, change)(**search, dry_run=True)
    assert [app.jobs.get(id) for id in shop.values()] == before
    done = getattr(app.jobs, change)(**search)
    assert (foreseen.dry_run, done.dry_run) == (True, False)
    assert foreseen.results == done.results
    assert len(done.results) > 1


def test_thousands_are_changed_and_a_limit_stops(app, add):
    app.enqueue_many(add.build(n) for n in range(2_500))
    assert app.jobs.cancel(handler=add, limit=400).counts == {"cancelled": 400}
    assert app.jobs.reschedule(queue="default", delay="1h").counts == {"rescheduled": 2_100}
    assert app.jobs.cancel(queue="default").counts == {"cancelled": 2_100}
    assert app.jobs.delete(state="cancelled").counts == {"deleted": 2_500}
    assert list(app.jobs.find()) == []


@everywhere
def test_waiting_jobs_are_rescheduled(app, shop):
    later = datetime.now(UTC) + timedelta(days=1)
    done = app.jobs.reschedule(queue="mail", at=later)
    assert done.counts == {"rescheduled": 2}
    assert shop["failed"].info().due_at == later
    assert app.jobs.reschedule(shop["first"]).results == {shop["first"]: "too_late"}


@everywhere
def test_ended_jobs_and_dead_letters_are_deleted(app, shop):
    done = app.jobs.delete([*shop.values(), "nobody"])
    assert done.results == {
        **{shop[name]: "deleted" for name in ("first", "second", "dead")},
        **{shop[name]: "not_ended" for name in ("failed", "delayed", "ready")},
        "nobody": "unknown",
    }
    assert names(shop, app.jobs.find()) == ["ready", "failed", "delayed"]
    assert list(app.dead_letters().find()) == []
    with pytest.raises(JobNotFound):
        shop["first"].info()


@everywhere
def test_a_retry_of_a_search_touches_only_what_failed(app, shop):
    done = app.jobs.retry(all=True)
    assert done.results == {shop["dead"]: "replayed", shop["failed"]: "rescheduled"}
    assert (shop["dead"].state, shop["failed"].state, shop["delayed"].state) == ("ready", "ready", "delayed")
    assert shop["failed"].info().attempts == 1


@everywhere
def test_a_retry_leaves_alone_what_waits_and_what_is_not_known(app, shop):
    done = app.jobs.retry([shop["delayed"], shop["ready"], "nobody"])
    assert done.results == {shop["delayed"]: "waiting", shop["ready"]: "waiting", "nobody": "unknown"}
    assert shop["delayed"].state == "delayed"


@where_payloads_are_kept
def test_a_retry_of_a_job_that_is_done_makes_a_new_job(app, shop):
    done = app.jobs.retry(shop["second"])
    new = done.new_ids[shop["second"]]
    assert done.results == {shop["second"]: "new"}
    info = new.info()
    assert (info.state, info.name, info.payload, info.retry_of) == ("ready", "sum", {"a": 2}, shop["second"])
    assert (info.meta["tenant"], new != shop["second"]) == ("a", True)
    app.worker(burst=True).run()
    assert (new.result(0), shop["second"].result(0)) == (3, 3)
    third = app.jobs.retry(new).new_ids[new]
    assert third.info().retry_of == new


@where_payloads_are_kept
def test_a_cancelled_or_expired_job_runs_again_from_now_on(app, add):
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    expired = add.using(expires_at=soon).enqueue(1)
    while datetime.now(UTC) <= soon:
        pass
    app.worker(burst=True).run()
    cancelled = add.using(delay="1h").enqueue(2)
    cancelled.cancel()
    assert (expired.state, cancelled.state) == ("expired", "cancelled")
    new = app.jobs.retry([expired, cancelled]).new_ids
    app.worker(burst=True).run()
    assert [new[expired].result(0), new[cancelled].result(0)] == [2, 3]


@where_payloads_are_kept
def test_a_new_job_takes_the_unique_text_of_the_old_one_but_not_its_idempotency_key(app, add):
    old = add.using(unique="only", idempotency_key="once").enqueue(1)
    app.worker(burst=True).run()
    first = app.jobs.retry(old)
    again = app.jobs.retry(old)
    assert (first.results, again.results) == ({old: "new"}, {old: "duplicate"})
    assert again.new_ids == first.new_ids
    app.worker(burst=True).run()
    assert first.new_ids[old].info().reason is None  # it ran, and was not skipped by the key
    kept = app.jobs.retry(old, keep_idempotency_key=True).new_ids[old]
    app.worker(burst=True).run()
    assert kept.info().reason == f"skipped-idempotent: job {old} has done it"


@everywhere
def test_a_job_whose_payload_is_not_kept_cannot_run_again(app, shop):
    app.jobs.forget([shop["first"]])
    assert app.jobs.retry(shop["first"], dry_run=True).results == {shop["first"]: "erased"}
    assert app.jobs.retry(shop["first"]).results == {shop["first"]: "erased"}


def test_durations_are_measured_by_the_clock_of_the_app(tmp_path):
    clock = FakeClock()
    with Tenure("memory://", clock=clock) as app:
        app.job(name="noop")(lambda: None)
        old = app.define("noop").dispatch()
        clock.advance(3_600)
        new = app.define("noop").dispatch()
        assert [job.id for job in app.jobs.find(older="30m")] == [old]
        assert [job.id for job in app.jobs.find(newer="30m")] == [new]


@everywhere
def test_jobs_are_found_by_their_tags_in_every_state(app, add, fail):
    first, second = (add.using(tags=["billing", "eu"]).enqueue(number) for number in (1, 2))
    dead = fail.using(max_retries=0, tags=["billing"]).enqueue("out of paper")
    app.worker("default", "mail", burst=True).run()
    waiting = add.using(tags="billing", delay="1h").enqueue(3)
    add.enqueue(4)

    assert [job.id for job in app.jobs.find(tags="billing")] == [waiting, dead, second, first]
    assert [job.id for job in app.jobs.find(tags=["billing", "eu"])] == [second, first]
    assert [job.id for job in app.jobs.find(tags="billing", state=["dead", "delayed"])] == [waiting, dead]
    assert [job.id for job in app.jobs.find(tags="billing", queue="mail")] == [dead]
    assert (app.jobs.get(first).tags, app.jobs.get(waiting).tags) == (("billing", "eu"), ("billing",))
    assert list(app.jobs.find(tags="other")) == []


@everywhere
def test_jobs_with_a_tag_are_read_page_by_page(app, add):
    handles = [add.using(tags="billing").enqueue(number) for number in range(7)]

    pages, after = [], None
    while True:
        page = app.jobs.find(tags="billing", limit=3, after=after).page()
        pages.append([job.id for job in page.jobs])
        after = page.cursor
        if after is None:
            break

    assert [id for page in pages for id in page] == handles[::-1]
    assert all(len(page) <= 3 for page in pages)
    with pytest.raises(InvalidFilter, match="another search"):
        app.jobs.find(tags="other", limit=3, after=app.jobs.find(tags="billing", limit=3).page().cursor).page()


def test_the_jobs_with_a_tag_are_cancelled(app, add):
    wanted, other = add.using(tags="billing").enqueue(1), add.enqueue(2)

    assert app.jobs.cancel(tags="billing", dry_run=True).results == {wanted: "cancelled"}
    assert app.jobs.cancel(tags="billing").results == {wanted: "cancelled"}
    assert (wanted.state, other.state) == ("cancelled", "ready")


@where_payloads_are_kept
def test_a_new_job_that_repeats_an_ended_one_has_its_tags(app, add):
    old = add.using(tags=["billing"]).enqueue(1)
    app.worker("default", burst=True).run()

    new = app.jobs.retry(old).new_ids[old]

    assert (new.info().tags, new.info().retry_of) == (("billing",), old)
    assert [job.id for job in app.jobs.find(tags="billing")] == [new, old]
