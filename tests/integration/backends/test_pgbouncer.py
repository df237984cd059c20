"""Behind PgBouncer in transaction mode, with fewer server connections than threads, every job is leased once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tenure.backends.messages import Ack, Message
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tests.support.servers.fixtures import absent
from tests.support.servers.kinds import pgbouncer
from tests.support.servers.server import Missing, Server

JOBS = 500


@pytest.fixture
def pooled_url(postgres_url):
    parts = urlsplit(postgres_url)
    try:
        pooler = Server(pgbouncer(parts.port))
    except Missing as missing:
        raise absent(missing) from missing
    yield urlsplit(pooler.url)._replace(path=parts.path).geturl()
    pooler.stop()


@pytest.fixture
def backend(pooled_url):
    backend = open_backend(pooled_url, SystemClock())
    yield backend
    backend.close()


def work(backend):
    """Lease and settle until nothing is left; the ids that were ours to the end."""
    mine = []
    while leases := backend.lease(["mail"], limit=7, seconds=60):
        lost = backend.ack([Ack(lease=lease) for lease in leases])
        mine += [lease.id for lease in leases if lease not in lost]
    return mine


def test_each_job_is_leased_once_by_four_threads(backend):
    backend.put([Message(id=f"job-{number}", queue="mail", body=b"{}", handler="greet") for number in range(JOBS)])
    with ThreadPoolExecutor(4) as threads:
        ran = Counter(id for ids in threads.map(work, [backend] * 4) for id in ids)
    assert set(ran.values()) == {1}
    assert backend.queues.counts()["mail"]["done"] == len(ran) == JOBS


def test_health_says_that_workers_look_for_jobs(backend):
    facts = {fact.about: fact.text for fact in backend.server.facts()}
    assert "workers poll every 25 ms" in facts["wake-ups"]
