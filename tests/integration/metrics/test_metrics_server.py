"""Pages of metrics over the network and between processes, and signals of real backends."""

import http.client
import os
import signal
import socket
import socketserver
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from tenure import Tenure
from tenure.cli import metrics_server
from tenure.cli.errors import CommandError
from tenure.cli.metrics_server import AppMetrics, MetricsServer, SnapshotServer, WorkerSnapshots, request_snapshot
from tenure.errors import BackendUnavailable
from tenure.metrics.collector import MemoryCollector
from tenure.metrics.counters import Snapshot, take_snapshot
from tenure.worker import heartbeat
from tests.support.waiting import WAIT_SECONDS

QUEUES = (("tenure_backend_up", (), 1.0),)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Gives workers and clients more time to answer than a busy machine needs."""
    for name in ("_WORKER_TIMEOUT", "_READER_TIMEOUT", "_REQUEST_TIMEOUT"):
        monkeypatch.setattr(metrics_server, name, WAIT_SECONDS)


def fetched(url):
    with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as answer:
        text = answer.read().decode()
    return {
        (each.name, *(value for _, value in sorted(each.labels.items()))): each.value
        for family in parsed(text)
        for each in family.samples
    }


def counting(number, **gauges):
    collector = MemoryCollector()
    collector.increment("jobs_succeeded", number, queue="mail")
    return lambda queues: msgspec.structs.replace(take_snapshot(collector), gauges=QUEUES if queues else ())


def counted(snapshot):
    return sum(value for name, _, value in snapshot.counters if name == "jobs_succeeded")


def test_a_page_is_served_on_loopback_to_who_asks_for_metrics():
    with MetricsServer("127.0.0.1", 0, lambda: counting(3)(True)) as page:
        assert fetched(page.url)["tenure_jobs_succeeded_total", "mail"] == 3
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetched(page.url.replace("metrics", "secrets"))


def test_a_port_that_is_taken_is_refused_in_plain_words():
    with socket.create_server(("127.0.0.1", 0)) as taken_already:
        port = taken_already.getsockname()[1]
        with pytest.raises(CommandError, match=f"cannot be served at 127.0.0.1:{port}"):
            MetricsServer("127.0.0.1", port, Snapshot)


def test_a_reader_that_hangs_does_not_keep_others_from_reading():
    with MetricsServer("127.0.0.1", 0, lambda: counting(3)(True)) as page:
        host, port = page.url.split("/")[2].split(":")
        with socket.create_connection((host, int(port))):
            assert fetched(page.url)["tenure_jobs_succeeded_total", "mail"] == 3


@pytest.fixture
def slow_page(monkeypatch):
    """A page for three connections at a time, with the function that opens one."""
    monkeypatch.setattr(metrics_server, "_MAX_CONNECTIONS", 3)
    with MetricsServer("127.0.0.1", 0, lambda: counting(3)(True)) as page, ExitStack() as stack:
        host, port = page.url.split("/")[2].split(":")
        yield page, lambda: stack.enter_context(socket.create_connection((host, int(port)), timeout=WAIT_SECONDS))


def is_refused(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_slow_clients_use_a_limited_number_of_connections_and_threads(slow_page, eventually, caplog):
    page, connect = slow_page
    slow = [connect() for _ in range(3)]
    before = threading.active_count()

    assert all(is_refused(connect()) for _ in range(20))

    assert threading.active_count() <= before + 3
    assert [each.getMessage() for each in caplog.records] == [
        "the metrics page refuses requests: 3 clients are connected"
    ]
    for each in slow:
        each.close()
    eventually(lambda: can_be_fetched(page.url))


def can_be_fetched(url):
    try:
        return fetched(url)["tenure_jobs_succeeded_total", "mail"] == 3
    except (OSError, http.client.HTTPException):
        return False


def test_a_client_that_sends_byte_after_byte_is_cut_off(slow_page, monkeypatch, eventually):
    monkeypatch.setattr(metrics_server, "_REQUEST_TIMEOUT", 0.1)
    page, connect = slow_page
    dripping = connect()
    dripping.settimeout(0.02)

    def is_cut_off():
        try:
            dripping.send(b"G")
            return dripping.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    eventually(is_cut_off)
    eventually(lambda: can_be_fetched(page.url))


def test_a_page_that_cannot_be_made_is_logged(caplog, eventually):
    def fail():
        raise ValueError("a fault of ours")

    with MetricsServer("127.0.0.1", 0, fail) as page:
        with pytest.raises((urllib.error.URLError, ConnectionError, http.client.RemoteDisconnected)):
            fetched(page.url)
        eventually(lambda: "the metrics page could not be made" in caplog.text)


def test_workers_are_added_up_and_one_tells_of_the_queues(tmp_path):
    with SnapshotServer(tmp_path, counting(3)), SnapshotServer(tmp_path, counting(4)):
        found = WorkerSnapshots(tmp_path).snapshot()
        assert (counted(found), found.gauges) == (7, QUEUES)


def test_a_worker_that_is_starting_is_not_taken_for_ended(tmp_path, monkeypatch):
    """Between `bind` and `listen` the system refuses connections to a socket, as it does when its owner has died."""
    gathering = WorkerSnapshots(tmp_path)
    activate = socketserver.UnixStreamServer.server_activate

    def asked_meanwhile(server):
        assert gathering.snapshot() == Snapshot()
        activate(server)

    monkeypatch.setattr(socketserver.UnixStreamServer, "server_activate", asked_meanwhile)
    with SnapshotServer(tmp_path, counting(3)):
        assert counted(gathering.snapshot()) == 3


def test_what_an_ended_worker_counted_stays(tmp_path):
    gathering = WorkerSnapshots(tmp_path)
    with SnapshotServer(tmp_path, counting(3)):
        with SnapshotServer(tmp_path, counting(4)):
            assert counted(gathering.snapshot()) == 7
        assert [counted(gathering.snapshot()) for _ in range(2)] == [7, 7]
    assert [counted(gathering.snapshot()) for _ in range(2)] == [7, 7]
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_worker_last_told_stays(tmp_path, start):
    gathering = WorkerSnapshots(tmp_path)
    killed = start(
        "import sys, time; from pathlib import Path; from tenure.cli.metrics_server import SnapshotServer\n"
        "from tenure.cli import metrics_server; from tenure.metrics.counters import Snapshot\n"
        f"metrics_server._WORKER_TIMEOUT = {WAIT_SECONDS}\n"
        "with SnapshotServer(Path(sys.argv[1]), lambda _: Snapshot((('jobs_succeeded', (), 5.0),))):\n"
        "    print('ready', flush=True); time.sleep(600)",
        tmp_path,
    )
    assert killed.stdout.readline() == "ready\n"
    assert counted(gathering.snapshot()) == 5
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    with SnapshotServer(tmp_path, counting(1)):
        assert [counted(gathering.snapshot()) for _ in range(2)] == [6, 6]


def test_queues_are_looked_at_once_for_many_readers(url, monkeypatch):
    monkeypatch.setattr(metrics_server, "_QUEUES_MIN_AGE", 3600.0)
    with Tenure(url) as app:
        looks = []
        app.backend.queues.counts, counts = (
            lambda **given: looks.append(1) or counts(**given),
            app.backend.queues.counts,
        )
        readings = AppMetrics(app)
        assert readings.snapshot().gauges == readings.snapshot().gauges
        assert len(looks) == 1


def test_a_page_tells_that_the_backend_is_down_and_still_counts(url):
    def refuse(**options):
        raise BackendUnavailable("gone")

    with Tenure(url) as app:
        app.metrics.increment("jobs_succeeded", queue="mail")
        app.backend.queues.counts = refuse
        found = AppMetrics(app).snapshot()
        assert (counted(found), found.gauges) == (1, (("tenure_backend_up", (), 0.0),))


def test_the_counters_of_a_worker_begin_at_nothing(url):
    with Tenure(url) as app:
        found = {(name, labels): value for name, labels, value in AppMetrics(app, ["mail"]).snapshot().counters}
        assert found["jobs_failed_permanently", (("queue", "mail"),)] == 0
        assert found["jobs_rejected_signature", (("queue", "mail"),)] == 0


@pytest.mark.parametrize("metrics", [None, "tenure.metrics.collector:NoCollector"])
def test_a_page_counts_where_the_app_does_not(url, metrics):
    with Tenure(url, metrics=metrics) as app:
        app.job(name="greet")(lambda: None).enqueue()
        readings = AppMetrics(app)
        app.worker(burst=True).run()
        names = {name for name, _, _ in readings.snapshot().counters}
        assert {"jobs_succeeded", "queue_ack_total"} <= names


def test_a_worker_tells_a_pace_that_signals_are_made_of(app, clock):
    assert app.backend.queues is not None

    @app.job
    def greet():
        pass

    greet.enqueue()
    clock.advance(2)
    greet.enqueue()
    (before,) = app.signals()
    assert (before.queue, before.ready, before.service_rate, before.seconds_to_drain) == ("default", 2, 0.0, None)
    assert before.oldest_age >= 1.9
    worker = app.worker(burst=True)
    worker.run()
    assert app.signals() == []  # nothing waits, and nobody works


def test_signals_come_from_the_live_workers(app, clock, eventually, monkeypatch):
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL", 0.05)

    @app.job
    def greet():
        pass

    worker = app.worker()
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        assert worker.ready.wait(WAIT_SECONDS)
        eventually(lambda: app.backend.workers.alive())
        clock.advance(60)  # since the worker counted that there was nothing; before it holds leases, which would end
        app.enqueue_many(greet.build() for _ in range(10))
        eventually(lambda: app.metrics.snapshot()["counters"].get("jobs_succeeded|queue=default") == 10)
        (found,) = eventually(lambda: [each for each in app.signals() if each.service_rate])
        assert (found.queue, found.ready, found.seconds_to_drain) == ("default", 0, 0.0)
        assert found.arrival_rate == pytest.approx(found.service_rate, abs=0.01)
    finally:
        worker.stop()
        running.join()


def test_a_worker_that_is_asked_answers_without_queues_too(tmp_path):
    with SnapshotServer(tmp_path, counting(3)):
        (path,) = tmp_path.glob("*.sock")
        assert request_snapshot(path, queues=False).gauges == ()
