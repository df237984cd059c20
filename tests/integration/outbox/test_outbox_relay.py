"""The relay moves jobs from an outbox to their backends, with the same ids."""

import logging
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from threading import Event, Thread

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanContext, TraceFlags

from tenure import Tenure
from tenure.app.outbox import relay as relay_module
from tenure.backends.messages import Message
from tenure.backends.sql.outbox.database import open_outbox
from tenure.clock import SystemClock
from tenure.errors import BackendError, BackendUnavailable, PartialPut, SchemaError, SettingsError, UnknownBackend
from tenure.events import Enqueued, OutboxRelayed
from tenure.wire.signing import new_key
from tests.integration.backends.test_caller_transactions import raw, url_of
from tests.support.outboxes import enqueue_in_outbox, make_outbox, outbox_rows, outbox_url, run_statement
from tests.support.waiting import eventually

KEY = new_key().dump()
TARGETS = ("sqlite", "redis", "beanstalk")
REFUSED = "tries, error, owner"


@pytest.fixture(params=("sqlite", "postgres", "mariadb"))
def outbox(request, tmp_path):
    """The URL of an application's database."""
    return outbox_url(request, request.param, tmp_path)


@pytest.fixture
def sqlite_outbox(tmp_path):
    return make_outbox(f"sqlite:///{tmp_path}/app.db")


@pytest.fixture
def app(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", keys=[KEY]) as app:
        app.job(greet)
        yield app


def greet(name: str) -> str:
    return f"hello {name}"


def job(app, who="Ada", **options):
    return app.define("greet", {"name": who}).build().replace(**options)


def jobs(app, count, **options):
    return [job(app, f"n{number}", **options) for number in range(count)]


def ready(app):
    return [info.id for info in app.jobs.find(states=["ready"])]


@pytest.mark.parametrize("target", TARGETS)
def test_jobs_reach_their_backend_in_order_and_run(outbox, target, request, tmp_path):
    queue = f"q{token_hex(4)}"
    url = f"sqlite:///{tmp_path}/jobs.db" if target == "sqlite" else request.getfixturevalue(f"{target}_url")
    with Tenure(url, keys=[KEY], outboxes=[outbox], store="memory://") as app:
        ran = []
        app.job(ran.append, name="note")
        built = [app.define("note", {"object": number}).build().replace(queue=queue) for number in range(5)]
        handles = enqueue_in_outbox(app, outbox, built)

        moved = app.outboxes.move()
        leases = app.backend.lease([queue], limit=10, seconds=10)

        assert (moved.relayed, moved.dropped, moved.refused) == (5, 0, 0)
        assert [lease.id for lease in leases] == handles
        assert outbox_rows(outbox) == []


def test_all_fields_of_a_job_arrive(app, outbox):
    at = 1_900_000_000
    (handle,) = enqueue_in_outbox(
        app, outbox, [job(app, queue="reports", name="monthly", priority=8, at=at, tags=("a", "b"), unique="u")]
    )

    app.outboxes.on(outbox).move()
    info = handle.info()

    assert (info.queue, info.name, info.priority, info.tags) == ("reports", "monthly", 8, ("a", "b"))
    assert (info.state, info.due_at.timestamp()) == ("delayed", at)
    assert info.payload == {"name": "Ada"}
    assert app.backend.unique.holders(["u"]) == {"u": handle}


def test_a_delay_counts_from_the_enqueue(app, sqlite_outbox):
    (handle,) = enqueue_in_outbox(app, sqlite_outbox, [job(app, delay=3600.0)])
    ((created,),) = outbox_rows(sqlite_outbox, "created")
    run_statement(sqlite_outbox, "UPDATE tenure_outbox SET due = due - 1800000000, created = created - 1800000000")

    app.outboxes.on(sqlite_outbox).move()

    assert round(handle.info().due_at.timestamp() - created / 1e6) == 1800


def test_a_job_that_was_put_before_is_not_put_again(app, sqlite_outbox):
    (handle,) = enqueue_in_outbox(app, sqlite_outbox, [job(app, unique="u")])
    ((body,),) = outbox_rows(sqlite_outbox, "body")
    app.backend.put([Message(id=handle.id, queue="default", body=body, handler="greet", unique="u")])

    moved = app.outboxes.on(sqlite_outbox).move()

    assert (moved.relayed, moved.dropped) == (1, 0)
    assert ready(app) == [handle]


def test_a_job_whose_unique_text_is_taken_is_dropped(app, sqlite_outbox):
    first, second = enqueue_in_outbox(app, sqlite_outbox, [job(app, unique="u"), job(app, unique="u")])
    app.enqueue(job(app, unique="v"))
    enqueue_in_outbox(app, sqlite_outbox, [job(app, unique="v")])

    moved = app.outboxes.on(sqlite_outbox).move()

    assert (moved.relayed, moved.dropped) == (1, 2)
    assert first in ready(app)
    assert second not in ready(app)
    assert outbox_rows(sqlite_outbox) == []


def test_more_jobs_than_one_batch_are_moved(app, outbox):
    handles = enqueue_in_outbox(app, outbox, jobs(app, 2100))

    moved = app.outboxes.on(outbox).move()
    leases = app.backend.lease(["default"], limit=2100, seconds=10)

    assert moved.relayed == 2100
    assert [lease.id for lease in leases] == handles


def test_each_job_goes_to_the_backend_that_its_caller_named(tmp_path, sqlite_outbox):
    backends = {"other": f"sqlite:///{tmp_path}/other.db"}
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", keys=[KEY], backends=backends, outboxes=[sqlite_outbox]) as app:
        app.job(greet)
        (mine,) = enqueue_in_outbox(app, sqlite_outbox, [job(app)])
        (theirs,) = enqueue_in_outbox(app, sqlite_outbox, [job(app)], "other")

        app.outboxes.move()

        assert theirs.state == mine.state == "ready"
        assert app.parts("other").find(theirs.id) is not None
        assert app.parts().find(theirs.id) is None


def test_a_job_for_the_database_of_the_outbox_itself_is_moved_too(outbox):
    with Tenure(outbox, keys=[KEY], outboxes=[outbox]) as app:
        app.job(greet)
        (handle,) = enqueue_in_outbox(app, outbox, [job(app)])

        app.outboxes.move()

        assert handle.state == "ready"


def test_refused_jobs_stay_with_their_error_and_hold_back_no_other(app, outbox, caplog, monkeypatch):
    put = app.backend.put

    def picky(messages):
        if any(message.name == "bad" for message in messages):
            raise ValueError("this backend does not like it")
        return put(messages)

    monkeypatch.setattr(app.backend, "put", picky)
    built = [job(app, name="bad" if number in (3, 7) else None) for number in range(10)]
    handles = enqueue_in_outbox(app, outbox, built)
    bad = [handles[3], handles[7]]

    moved = app.outboxes.on(outbox).move()
    again = app.outboxes.on(outbox).move()

    assert (moved.relayed, moved.refused) == (8, 2)
    assert again.refused == 0  # they wait
    assert sorted(ready(app)) == sorted(set(handles) - set(bad))
    assert outbox_rows(outbox, REFUSED) == [(1, "ValueError: this backend does not like it", None)] * 2
    assert len([each for each in caplog.records if "2 jobs of the outbox" in each.message]) == 1


@pytest.mark.parametrize("error", [BackendError("out of memory"), PartialPut("it may be draining", [])])
def test_a_backend_that_refuses_every_job_is_down_and_its_jobs_keep_their_place(app, outbox, monkeypatch, error):
    calls = []

    def full(messages):
        calls.append(len(messages))
        raise error

    handles = enqueue_in_outbox(app, outbox, jobs(app, 64))
    (relay,) = app.outboxes.on(outbox)._relays()
    with monkeypatch.context() as patch:
        patch.setattr(app.backend, "put", full)
        relay.beat()
        rows = outbox_rows(outbox, REFUSED)
        relay._outages[""].until = 0.0
        relay.beat()
        is_down = relay._outages[""].log.is_on
    relay.close()

    moved = app.outboxes.on(outbox).move()

    assert calls == [64, 32, 16, 8, 4, 2, 1, 1, 1]
    assert rows == [(0, None, None)] * 64
    assert is_down
    assert moved.relayed == 63  # one was tried alone, and waits for ten seconds
    assert ready(app) == handles[1:]


def test_the_job_that_a_backend_cannot_take_is_found_among_others(app, outbox, monkeypatch):
    put = app.backend.put

    def picky(messages):
        if any(message.name == "bad" for message in messages):
            raise BackendError("this name is refused")
        return put(messages)

    monkeypatch.setattr(app.backend, "put", picky)
    built = [job(app, name="bad" if number in (0, 1, 7) else None) for number in range(10)]
    handles = enqueue_in_outbox(app, outbox, built)
    (relay,) = app.outboxes.on(outbox)._relays()

    relay.beat()

    def moves():
        relay._outages[""].until = 0.0
        relay.beat()
        return all(tries for (tries,) in outbox_rows(outbox, "tries"))

    eventually(moves)
    relay.close()

    assert [id for (id,) in outbox_rows(outbox)] == [handles[0], handles[1], handles[7]]
    assert len(ready(app)) == 7


def test_an_outage_in_a_halved_batch_is_not_tried_for_each_part(app, sqlite_outbox, monkeypatch):
    calls = []

    def lost(messages):
        calls.append(len(messages))
        if len(calls) == 1:
            raise ValueError("one of these")
        raise BackendUnavailable("no answer")

    monkeypatch.setattr(app.backend, "put", lost)
    enqueue_in_outbox(app, sqlite_outbox, jobs(app, 8))

    with pytest.raises(BackendUnavailable):
        app.outboxes.on(sqlite_outbox).move()

    assert calls == [8, 4]


def test_a_refused_job_is_tried_again_on_request(app, outbox, monkeypatch):
    (handle,) = enqueue_in_outbox(app, outbox, [job(app)])
    with monkeypatch.context() as patch:
        patch.setattr(app.backend, "put", refusing)
        app.outboxes.on(outbox).move()

    with app.outboxes.on(outbox).databases() as databases:
        retried = [database.retry([handle, "unknown"]) for database in databases]
    moved = app.outboxes.on(outbox).move()

    assert retried == [[handle]]
    assert moved.relayed == 1
    assert ready(app) == [handle]


def refusing(_):
    raise ValueError("no")


def test_the_pause_after_a_refusal_grows_to_an_hour():
    assert [relay_module.pause_after(tries) for tries in (1, 2, 3, 10, 1000)] == [10, 20, 40, 3600, 3600]


def test_a_job_for_an_unknown_backend_waits_until_the_setting_names_it(tmp_path, outbox):
    other = {"other": f"sqlite:///{tmp_path}/other.db"}
    with Tenure("memory://", keys=[KEY], backends=other) as web:
        web.job(greet)
        enqueue_in_outbox(web, outbox, [job(web)], "other")
        enqueue_in_outbox(web, outbox, [job(web)])
    with Tenure("memory://", keys=[KEY], outboxes=[outbox]) as app:
        moved = app.outboxes.move()

        assert (moved.relayed, moved.refused) == (1, 1)
        ((tries, error, owner),) = outbox_rows(outbox, REFUSED)
        assert (tries, owner) == (1, None)
        assert "no backend 'other' is in the setting backends of the relay" in error


def test_a_removed_job_never_runs(app, outbox):
    first, second = enqueue_in_outbox(app, outbox, jobs(app, 2))

    with app.outboxes.on(outbox).databases() as databases:
        removed = [database.remove([first]) for database in databases]
    app.outboxes.on(outbox).move()

    assert removed == [[first]]
    assert ready(app) == [second]


def test_a_job_that_is_being_moved_is_neither_removed_nor_claimed_twice(app, outbox):
    (handle,) = enqueue_in_outbox(app, outbox, [job(app)])
    database = open_outbox(outbox, SystemClock())

    claim = database.claim("", 10, 3600.0)

    assert [entry.message.id for entry in claim.entries] == [handle]
    assert database.claim("", 10, 3600.0).entries == ()
    assert database.due_backends() == []
    assert database.remove([handle]) == []
    assert database.retry([handle]) == []
    database.close()


def test_a_stale_claim_changes_nothing(app, outbox):
    enqueue_in_outbox(app, outbox, [job(app)])
    database = open_outbox(outbox, SystemClock())
    stale = database.claim("", 10, 0.0)
    fresh = database.claim("", 10, 3600.0)

    database.refuse(stale, [(stale.entries[0], "late")], relay_module.pause_after)
    database.release(stale, stale.entries)

    assert len(fresh.entries) == 1
    assert outbox_rows(outbox, REFUSED) == [(0, None, fresh.owner)]
    database.close()


def test_released_jobs_are_back_in_their_place(app, outbox):
    first = enqueue_in_outbox(app, outbox, jobs(app, 2))
    later = enqueue_in_outbox(app, outbox, jobs(app, 2))
    database = open_outbox(outbox, SystemClock())
    claim = database.claim("", 2, 3600.0)

    database.release(claim, claim.entries)
    again = database.claim("", 10, 3600.0)

    assert [entry.message.id for entry in claim.entries] == first
    assert [entry.message.id for entry in again.entries] == [*first, *later]
    database.close()


def test_numbers_of_rows_are_never_used_again(app, outbox):
    enqueue_in_outbox(app, outbox, jobs(app, 3))
    ((last,),) = outbox_rows(outbox, "max(number)", "SELECT {} FROM tenure_outbox")
    run_statement(outbox, "DELETE FROM tenure_outbox")

    enqueue_in_outbox(app, outbox, [job(app)])

    ((number,),) = outbox_rows(outbox, "number")
    assert number > last


def test_while_a_backend_is_down_its_jobs_stay_and_others_are_moved(tmp_path, sqlite_outbox, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    with Tenure(
        f"sqlite:///{tmp_path}/jobs.db",
        keys=[KEY],
        backends={"away": "redis://127.0.0.1:1/0"},
        outboxes=[sqlite_outbox],
    ) as app:
        app.job(greet)
        away = enqueue_in_outbox(app, sqlite_outbox, jobs(app, 3), "away")
        here = enqueue_in_outbox(app, sqlite_outbox, jobs(app, 3))
        ((relay),) = app.outboxes._relays()

        for _ in range(5):
            relay.beat()
            relay._outages["away"].until = 0.0

        assert ready(app) == here
        assert [id for (id,) in outbox_rows(sqlite_outbox)] == away
        assert outbox_rows(sqlite_outbox, REFUSED) == [(0, None, None)] * 3
        assert len([each for each in caplog.records if "trying again" in each.message]) == 1
        assert relay._outages["away"].delays._next > 1.0
        with pytest.raises(BackendUnavailable):
            app.outboxes.move()
        relay.close()


def test_a_backend_that_does_not_answer_holds_back_no_other(tmp_path, sqlite_outbox, monkeypatch):
    backends = {"away": f"sqlite:///{tmp_path}/away.db"}
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", keys=[KEY], backends=backends, outboxes=[sqlite_outbox]) as app:
        app.job(greet)
        (relay,) = app.outboxes._relays()
        away, answers = app.open_backend("away").backend, Event()
        put = away.put
        monkeypatch.setattr(away, "put", lambda messages: answers.wait() and put(messages))
        (silent,) = enqueue_in_outbox(app, sqlite_outbox, [job(app)], "away")
        handles = []
        runner = Thread(target=relay.run)
        runner.start()
        try:
            for _ in range(3):
                (handle,) = enqueue_in_outbox(app, sqlite_outbox, [job(app)])
                eventually(lambda: [id for (id,) in outbox_rows(sqlite_outbox)] == [silent])
                handles.append(handle)
        finally:
            answers.set()
            relay.stop()
            runner.join()

        assert ready(app) == handles
        assert outbox_rows(sqlite_outbox) == []
        assert silent.state == "ready"


def test_a_partly_stored_batch_is_completed(app, sqlite_outbox, monkeypatch):
    put, calls = app.backend.put, []

    def halting(messages):
        calls.append(len(messages))
        if len(calls) == 1:
            put(messages[:2])
            raise PartialPut("2 were stored", [message.id for message in messages[:2]])
        return put(messages)

    monkeypatch.setattr(app.backend, "put", halting)
    handles = enqueue_in_outbox(app, sqlite_outbox, jobs(app, 5))

    moved = app.outboxes.on(sqlite_outbox).move()

    assert calls == [5, 3]
    assert moved.relayed == 5
    assert [lease.id for lease in app.backend.lease(["default"], limit=9, seconds=9)] == handles


def test_events_tell_what_was_enqueued_and_relayed(app, sqlite_outbox):
    events = []
    app.listen(events.append)
    handles = enqueue_in_outbox(app, sqlite_outbox, jobs(app, 2))

    assert events == []
    app.outboxes.on(sqlite_outbox).move()

    name = sqlite_outbox
    assert events == [Enqueued("default", "greet", tuple(handles)), OutboxRelayed(name, "", 2, 0, 0)]
    assert app.metrics.snapshot()["counters"][f"tenure_outbox_relayed_jobs|backend=;outbox={name}"] == 2


def test_a_job_carries_the_trace_of_its_enqueue(tmp_path, sqlite_outbox):
    origin = SpanContext(0x1234, 0x5678, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", keys=[KEY], tracing=True, outboxes=[sqlite_outbox]) as app:
        app.job(greet)
        with trace.use_span(trace.NonRecordingSpan(origin)):
            one, two = (enqueue_in_outbox(app, sqlite_outbox, [job(app)])[0] for _ in range(2))
        app.outboxes.move()

        opened = app.open_backend()
        carried = [
            opened.wire.open(opened.backend.jobs.find(id).body, "default").trace.traceparent for id in (one, two)
        ]

    assert all(f"{0x1234:032x}" in each for each in carried)


def test_the_depth_counts_what_waits(tmp_path, outbox):
    with Tenure("memory://", keys=[KEY], backends={"other": "memory://"}, outboxes=[outbox]) as app:
        app.job(greet)
        empty = app.outboxes.depths()
        enqueue_in_outbox(app, outbox, jobs(app, 2))
        enqueue_in_outbox(app, outbox, jobs(app, 1), "other")
        run_statement(
            outbox, "UPDATE tenure_outbox SET created = created - 120000000, tries = 1 WHERE backend = 'other'"
        )

        found = [
            (depth.backend, depth.jobs, depth.refused, depth.oldest_age > 119) for _, depth in app.outboxes.depths()
        ]

        assert [(depth.backend, depth.jobs) for _, depth in empty] == [("", 0)]
        assert found == [("", 2, 0, False), ("other", 1, 1, True)]


def test_a_database_without_the_table_is_explained(request, tmp_path):
    for kind in ("sqlite", "postgres", "mariadb"):
        url = url_of(request, kind, tmp_path)
        with raw(url):
            pass
        if kind == "sqlite":
            run_statement(url, "CREATE TABLE other (id INTEGER)")
        with Tenure("memory://", outboxes=[url]) as app, pytest.raises(SchemaError, match="tenure outbox migrate"):
            app.outboxes.move()


def test_a_table_of_a_newer_release_is_refused(app, sqlite_outbox):
    run_statement(sqlite_outbox, "UPDATE tenure_outbox_schema SET version = 99")

    with pytest.raises(SchemaError, match="upgrade Tenure"):
        app.outboxes.on(sqlite_outbox).move()


def test_the_database_of_an_application_keeps_its_journal_mode(app, sqlite_outbox):
    enqueue_in_outbox(app, sqlite_outbox, jobs(app, 2))

    app.outboxes.on(sqlite_outbox).move()

    ((mode,),) = outbox_rows(sqlite_outbox, "", "PRAGMA journal_mode")
    assert mode == "delete"


def test_a_missing_file_is_not_created(app, tmp_path):
    with pytest.raises(BackendUnavailable, match="there is no database"):
        app.outboxes.on(f"sqlite:///{tmp_path}/absent.db").move()

    assert not (tmp_path / "absent.db").exists()


def test_relays_that_run_at_once_move_each_job_once(app, outbox, monkeypatch):
    put, ids = app.backend.put, []
    monkeypatch.setattr(app.backend, "put", lambda messages: ids.extend(m.id for m in messages) or put(messages))
    monkeypatch.setattr(relay_module, "MAX_BATCH", 20)
    monkeypatch.setattr(relay_module, "CLAIM_SECONDS", 3600.0)
    handles = enqueue_in_outbox(app, outbox, jobs(app, 600))
    relays = app.outboxes.on(outbox, outbox, outbox)._relays()

    with ThreadPoolExecutor(3) as threads:
        moved = list(threads.map(lambda relay: relay.drain().relayed, relays))

    assert sorted(ids) == sorted(handles)
    assert sum(moved) == 600
    assert outbox_rows(outbox) == []


def test_the_relay_goes_on_after_its_connection_was_cut(app, request, tmp_path):
    url = outbox_url(request, "postgres", tmp_path)
    (relay,) = app.outboxes.on(url)._relays()
    relay.beat()
    cut = outbox_rows(
        url,
        statement="SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'tenure'",
    )
    (handle,) = enqueue_in_outbox(app, url, [job(app)])

    def moves():
        relay._outage.until = 0.0
        relay.beat()
        return not outbox_rows(url)

    eventually(moves)
    relay.close()
    assert cut == [(True,)]
    assert ready(app) == [handle]


def test_a_burst_leaves_the_report_of_an_outage_to_its_caller(app, tmp_path, caplog):
    for logger in logging.Logger.manager.loggerDict.values():  # as logging.config does in an application
        logger.disabled = False

    with pytest.raises(BackendUnavailable):
        app.outboxes.on(f"sqlite:///{tmp_path}/absent.db").move()

    assert caplog.records == []


def test_an_override_leaves_real_outboxes_alone(tmp_path, sqlite_outbox):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", keys=[KEY], outboxes=[sqlite_outbox]) as app:
        app.job(greet)
        enqueue_in_outbox(app, sqlite_outbox, [job(app)])

        with app.override("memory://"), pytest.raises(SettingsError, match="no outbox is known"):
            app.outboxes.move()

        assert len(outbox_rows(sqlite_outbox)) == 1


def test_a_lost_connection_is_an_outage_and_no_refusal(app, sqlite_outbox, monkeypatch):
    def cut(_):
        raise PartialPut("0 were stored for certain", []) from BackendUnavailable("the connection is lost")

    enqueue_in_outbox(app, sqlite_outbox, jobs(app, 2))
    monkeypatch.setattr(app.backend, "put", cut)

    with pytest.raises(PartialPut):
        app.outboxes.on(sqlite_outbox).move()

    assert outbox_rows(sqlite_outbox, REFUSED) == [(0, None, None)] * 2


def test_an_outbox_needs_a_database(app):
    with pytest.raises(SettingsError, match="setting outboxes"):
        app.outboxes.move()
    with pytest.raises(UnknownBackend, match="takes URLs of SQL databases"):
        app.outboxes.on("redis://:secret@host").move()
