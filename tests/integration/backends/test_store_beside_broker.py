"""The store beside a broker keeps results, records, attempts, statistics and the list of workers."""

import threading
from secrets import token_hex

import pytest

from tenure import Tenure
from tenure.app.doctor.collect import collect_facts as doctor_facts
from tenure.app.explain.collect import explained
from tenure.backends.contract import required
from tenure.backends.job_filter import JobFilter, search_jobs
from tenure.backends.memory.archive import MemoryArchive
from tenure.backends.messages import Nack
from tenure.backends.records import AuditRecord
from tenure.clock import SystemClock
from tenure.errors import BackendError, BackendUnavailable, JobFailed, JobNotFound, ResultTimeout, Retry, SettingsError
from tenure.wire.signing import new_key
from tenure.worker import archive_writer
from tenure.worker.archive_writer import ArchiveWriter, record_of
from tests.support.waiting import WAIT_SECONDS, eventually


@pytest.fixture(params=["sqlite:///{}/store.db", "redis"])
def app(request, tmp_path, beanstalk_url):
    store = request.param.format(tmp_path)
    if store == "redis":
        store = request.getfixturevalue("redis_url")
    url = f"{beanstalk_url}?prefix=test-{token_hex(6)}."
    with Tenure(url, store=store, environment="development") as app:

        @app.job(max_retries=1, backoff="none")
        def burn():
            raise ValueError("no good")

        @app.job(max_retries=1)
        def later():
            raise Retry(delay=3600)

        @app.job
        def twice(value: int) -> list[int]:
            return [value, value]

        yield app


def run(app):
    app.worker(burst=True).run()


def test_results_and_records_of_jobs_come_back(app):
    done, dead = app.define("twice", {"value": 2}).named("pair").dispatch(), app.define("burn").dispatch()
    run(app)
    assert app.result(done, timeout=WAIT_SECONDS) == [2, 2]
    with pytest.raises(JobFailed, match=r"is dead \(retries_exhausted\): ValueError: no good"):
        app.result(dead, timeout=WAIT_SECONDS)
    record = app.parts().jobs.find(done)
    assert (record.state, record.handler, record.name, record.queue) == ("done", "twice", "pair", "default")
    assert 0 < record.enqueued_at <= record.finished_at
    assert record.run.seconds >= 0
    attempts = app.parts().jobs.find(dead).failures
    assert [(each.attempt, each.run.handler) for each in attempts] == [(1, "burn"), (2, "burn")]
    listed, _ = search_jobs(app.parts().jobs, JobFilter(), 10)
    assert {record.id for record in listed} == {done, dead}


def test_jobs_of_a_broker_are_listed_by_tag_and_found_by_the_start_of_their_id(app):
    job = app.define("twice", {"value": 2})
    done, dead = job.tags("billing", "a").dispatch(), app.define("burn").tags("billing").dispatch()
    plain = app.define("twice", {"value": 3}).dispatch()
    run(app)
    for id in (done, plain):
        app.result(id, timeout=WAIT_SECONDS)
    with pytest.raises(JobFailed):
        app.result(dead, timeout=WAIT_SECONDS)
    jobs = app.parts().jobs
    assert {record.id: record.tags for record in jobs.tagged("billing", limit=9)[0]} == {
        done: ("billing", "a"),
        dead: ("billing",),
    }
    assert [record.id for record in jobs.with_prefix(done[:-1])] == [done]
    assert [letter.tags for letter in app.dead_letters().find()] == [("billing",)]


def test_the_store_keeps_the_audit_log(app):
    record = AuditRecord(id="a", at=app.clock.now(), actor="ada", action="dead.replay", target="all")
    app.parts().audit.save(record)
    assert app.parts().audit.page(limit=9) == [record]


def test_statistics_are_those_of_its_workers(app):
    for value in range(3):
        app.define("twice", {"value": value}).dispatch()
    run(app)
    (summary,) = app.statistics("1h", by="handler")
    assert (summary.name, summary.done) == ("twice", 3)


def test_doctor_explain_and_the_manager_read_the_store(app):
    done, dead = app.define("twice", {"value": 2}).dispatch(), app.define("burn").dispatch()
    run(app)
    app.result(done, timeout=WAIT_SECONDS)
    manager = app.manager()
    worker = manager.register_worker()
    facts = doctor_facts(app, has_handlers=True)
    assert facts.unserved == {}
    assert (facts.deaths.hour, facts.deaths.letters) == (1, 1)
    explanations = [explained(app, id, has_handlers=True)[1].answer.code for id in (done, dead)]
    assert explanations == ["done", "dead"]
    assert [each.id for each in app.parts().workers.alive()] == [worker.id]
    manager.unregister(worker)
    assert app.parts().workers.alive() == []


def test_workers_are_listed_while_they_live(app):
    started, released = threading.Event(), threading.Event()

    @app.job
    def hold():
        started.set()
        released.wait(WAIT_SECONDS)

    hold.enqueue()
    worker = app.worker(burst=True)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert started.wait(WAIT_SECONDS)
    alive = eventually(lambda: app.parts().workers.alive())
    released.set()
    thread.join()
    assert [each.id for each in alive] == [worker.name]
    assert app.parts().workers.alive() == []


def test_a_worker_on_a_broker_is_drained_through_the_store(app):
    manager = app.manager(seconds=5)
    worker = manager.register_worker()
    id = app.define("twice", {"value": 1}).dispatch()
    assert app.guards.drain_worker(worker.id, "disk")
    assert manager.next_job([], worker) is None
    assert app.guards.resume_worker(worker.id)
    assert eventually(lambda: manager.next_job([], worker)).id == id
    manager.unregister(worker)


def test_a_job_that_has_not_run_is_waited_for_though_nobody_knows_it(app):
    id = app.define("twice", {"value": 1}).dispatch()
    with pytest.raises(JobNotFound, match="it may not have run yet, which this backend cannot show"):
        app.result(id)
    with pytest.raises(ResultTimeout, match="is not known to have run"):
        app.result(id, timeout=0.05)
    app.define("later").queue("slow").dispatch()
    app.worker("slow", burst=True).run()
    (waiting,), _ = search_jobs(app.parts().jobs, JobFilter(queue="slow"), 10)
    assert (waiting.state, waiting.attempts) == ("delayed", 1)
    with pytest.raises(ResultTimeout, match="is delayed"):
        app.result(waiting.id, timeout=0.05)


def test_what_is_past_its_retention_is_forgotten(app):
    done = app.define("twice", {"value": 2}).dispatch()
    run(app)
    app.parts().archive.trim("done", app.clock.now() + 1, 10)
    assert app.parts().jobs.find(done) is None


def test_without_a_store_each_verb_says_what_to_set(beanstalk_url):
    with Tenure(beanstalk_url, keys=[new_key().dump()]) as app:
        for ask in (
            lambda: app.result("1"),
            app.statistics,
            lambda: required(app.parts().workers, "registry of workers"),
            lambda: required(app.parts().jobs, "lists of jobs"),
        ):
            with pytest.raises(BackendError, match="with the setting store"):
                ask()
        with pytest.raises(SettingsError, match="with the setting store"):
            app.worker()


class Broken(MemoryArchive):
    is_broken = True

    def save(self, records):
        if self.is_broken:
            raise BackendUnavailable("gone")
        super().save(records)


def test_while_the_store_is_down_the_newest_records_wait_for_it(monkeypatch, lease_of, eventually):
    monkeypatch.setattr(archive_writer, "MAX_WAITING", 3)
    archive = Broken()
    writer = ArchiveWriter(archive, SystemClock())
    role = threading.Thread(target=writer.run)
    role.start()
    for number in range(5):
        writer.take([Nack(lease=lease_of(number), charge="attempt")])
    eventually(lambda: writer._is_store_down and len(writer._waiting) == 3)
    archive.is_broken = False
    writer.stop()
    role.join(WAIT_SECONDS)
    assert [archive.find(str(number)) is not None for number in range(5)] == [False, False, True, True, True]


def test_what_costs_nothing_leaves_no_record(lease_of):
    assert record_of(Nack(lease=lease_of(1), reason="unstarted"), 1) is None


@pytest.fixture
def lease_of():
    from tenure.backends.messages import Lease

    def make(number):
        return Lease(
            id=str(number), queue="default", body=b"no envelope", owner="me", fence=1, attempts=0, crashes=0,
            vanished=0, priority=5, due=0, token=None,
        )  # fmt: skip

    return make
