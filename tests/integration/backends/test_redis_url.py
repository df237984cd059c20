"""Which Redis URLs and servers are accepted."""

import subprocess
import sys

import pytest
import redis
import trustme

from tenure.backends.messages import Ack
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.errors import BackendError, BackendUnavailable, UnknownBackend
from tenure.testing.conformance.messages import OTHER, QUEUE, make, make_many, numbers, take


@pytest.fixture
def open_url():
    opened = []

    def open_one(url):
        opened.append(open_backend(url, SystemClock()))
        return opened[-1]

    yield open_one
    for backend in opened:
        backend.close()


def run_through(backend):
    backend.put([make(1), make(2, queue=OTHER)])
    leases = take(backend, 10, QUEUE, OTHER)
    assert backend.ack([Ack(lease=lease) for lease in leases]) == []
    assert numbers(leases) == [1, 2]


def test_a_server_that_evicts_keys_is_refused_unless_that_is_allowed(own_server, open_url):
    url = own_server("redis", more=["--maxmemory-policy", "allkeys-lru"]).url
    with pytest.raises(BackendError, match=r"may delete jobs when its memory is full.*'allkeys-lru'.*noeviction"):
        open_url(url)
    backend = open_url(f"{url}?eviction=allowed")
    assert [fact.warning for fact in backend.server.facts() if fact.about == "memory"] == [True]
    run_through(backend)


def test_durability_is_told_as_the_server_is_set_up(own_server, open_url):
    server = own_server("redis", durable=True)
    backend = open_url(server.url)
    told = []
    with redis.Redis.from_url(server.url) as client:
        for setting, value in [("appendfsync", "always"), ("appendfsync", "everysec"), ("appendonly", "no")]:
            client.config_set(setting, value)
            told += [fact for fact in backend.server.facts() if fact.about == "durability"]
    assert [fact.warning for fact in told] == [False, False, True]
    assert [word in fact.text for word, fact in zip(["every job is on disk", "last second", "lost"], told, strict=True)]


def test_a_server_that_hides_its_settings_is_still_used(own_server, open_url):
    server = own_server("redis", durable=True)
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~tenure:*", "+@all", "-@admin", "-config")
    backend = open_url(server.url.replace("redis://", "redis://app:secret@"))
    run_through(backend)
    assert "does not say" in backend.server.facts()[0].text


def test_a_wrong_password_is_said_plainly_and_not_shown(own_server, open_url):
    url = own_server("redis").url
    with redis.Redis.from_url(url) as client:
        client.config_set("requirepass", "right")
    with pytest.raises(BackendError, match="user or password") as refused:
        open_url(url.replace("redis://", "redis://:wrong@"))
    assert "wrong" not in str(refused.value).replace("WRONGPASS", "")
    run_through(open_url(url.replace("redis://", "redis://:right@")))


def test_nobody_listening_is_said_with_the_address(open_url):
    with pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1:1 cannot be reached"):
        open_url("redis://127.0.0.1:1")


@pytest.mark.parametrize(
    "query",
    ["prefx=a", "prefix=", "prefix={a}", "timeout=soon", "timeout=0", "cluster=maybe", "eviction=1"],
)
def test_a_wrong_option_is_refused_before_anything_is_asked(open_url, query):
    with pytest.raises(UnknownBackend, match=query.partition("=")[0]):
        open_url(f"redis://127.0.0.1:1?{query}")


def test_two_prefixes_on_one_server_do_not_see_each_other(redis_url, open_url):
    one, other = open_url(redis_url), open_url(f"{redis_url}:other")
    one.put([make(1)])
    assert (take(other), other.queues.counts(), other.jobs.find(make(1).id)) == ([], {}, None)
    assert numbers(take(one)) == [1]


def test_a_unix_socket_works_as_well(own_server, open_url):
    server = own_server("redis")
    run_through(open_url(f"unix://{server.folder}/data/socket?db=1"))
    with redis.Redis.from_url(server.url) as client:
        assert list(client.info("keyspace")) == ["db1"]


def test_rediss_speaks_tls_and_checks_the_certificate(own_server, open_url, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    server = own_server("redis")
    with redis.Redis.from_url(server.url) as client:
        client.config_set("tls-cert-file", str(tmp_path / "server.pem"))
        client.config_set("tls-key-file", str(tmp_path / "server.pem"))
        client.config_set("tls-ca-cert-file", str(tmp_path / "ca.pem"))
        client.config_set("tls-auth-clients", "no")
        client.config_set("port", 0)
        client.config_set("tls-port", server.port)
    url = server.url.replace("redis://", "rediss://")
    run_through(open_url(f"{url}?ssl_ca_certs={tmp_path}/ca.pem"))
    with pytest.raises(BackendUnavailable, match="certificate verify failed"):
        open_url(url)


def test_without_the_driver_the_extra_is_named():
    script = (
        "import sys; sys.modules['redis'] = None\n"
        "from tenure.backends.url import open_backend\n"
        "from tenure.clock import SystemClock\n"
        "open_backend('redis://localhost', SystemClock())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'tenure[redis]'" in done.stderr.splitlines()[-1]


def test_the_cost_of_a_claim_does_not_grow_with_the_backlog(own_server, open_url):
    """Counted in commands that the server ran, which no busy machine can change."""
    server = own_server("redis")
    backend = open_url(server.url)
    with redis.Redis.from_url(server.url) as client:
        costs = []
        for start, count in [(0, 100), (100, 100), (200, 20_000)]:  # the first round also loads the scripts
            for first in range(start, start + count, 1000):
                backend.put(make_many(range(first, min(first + 1000, start + count))))
            client.config_resetstat()
            leases = take(backend, 10)
            backend.ack([Ack(lease=lease) for lease in leases])
            stats = client.info("commandstats")
            costs.append({name: each["calls"] for name, each in stats.items() if "config" not in name})
    assert costs[1] == costs[2]
    assert "cmdstat_keys" not in costs[2]
