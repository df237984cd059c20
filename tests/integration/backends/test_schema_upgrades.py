"""A database with an older schema is migrated with the jobs in it; those of the first schema have no tags."""

from contextlib import closing

import pytest

from tenure.backends.messages import Abandon, Ack, Message
from tenure.backends.records import AuditRecord
from tenure.backends.sql import migrations
from tenure.backends.url import open_backend
from tenure.clock import SystemClock


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return request.getfixturevalue(f"{request.param}_url")


def message(id, *tags):
    return Message(id=id, queue="mail", body=b"{}", handler="greet", tags=tags)


@pytest.fixture
def version():
    return 1


@pytest.fixture
def old(url, version, monkeypatch):
    """A database of the release that knew only the schemas up to a version, with a job in each of three states."""
    steps = migrations.steps
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "steps", lambda *of: steps(*of)[:version])
        with closing(open_backend(url, SystemClock())) as backend:
            assert backend.schema.version() == (version, version)
            backend.put([message("done"), message("dead"), message("ready")])
            done, dead = backend.lease(["mail"], limit=2, seconds=60)
            backend.ack([Ack(lease=done)])
            backend.abandon([Abandon(lease=dead, reason="failed")])
    return url


def test_jobs_of_the_first_schema_stay_and_new_ones_have_tags(old):
    with closing(open_backend(old, SystemClock())) as backend:
        assert backend.schema.steps_taken == [name for _, name, _ in migrations.steps(backend._dialect.name)[1:]]
        assert backend.schema.missing_indexes() == []
        backend.put([message("first", "billing"), message("plain"), message("second", "billing")])
        known = {id: backend.jobs.find(id) for id in ("done", "dead", "ready", "first")}
        assert {id: (record.state, record.tags) for id, record in known.items()} == {
            "done": ("done", ()),
            "dead": ("dead", ()),
            "ready": ("ready", ()),
            "first": ("ready", ("billing",)),
        }
        listed, _ = backend.jobs.tagged("billing", limit=9)
        assert sorted(record.id for record in listed) == ["first", "second"]
        assert backend.dead_letters.replay(["dead"]) == ["dead"]
        assert backend.jobs.trim("done", known["done"].finished_at + 1, 9) == 1
        leases = backend.lease(["mail"], limit=9, seconds=60)
        assert {lease.id for lease in leases} == {"ready", "first", "plain", "second", "dead"}


@pytest.mark.parametrize("version", [1, 2])
def test_a_database_from_before_the_audit_log_gets_one(old, version):
    record = AuditRecord(id="a", at=1, actor="ada", action="queue.pause", target="mail")
    with closing(open_backend(old, SystemClock())) as backend:
        assert backend.schema.version() == (3, 3)
        assert len(backend.schema.steps_taken) == 3 - version
        assert backend.schema.missing_indexes() == []
        backend.audit.save(record)
        assert backend.audit.page(limit=9) == [record]
        assert backend.jobs.find("done").state == "done"
