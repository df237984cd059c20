"""StatsD gets what workers and producers count, over a real UDP socket."""

import logging
import re
import socket
import threading

import pytest

from tenure import Tenure
from tenure.errors import SettingsError
from tenure.metrics import statsd
from tenure.metrics.statsd import MAX_PACKET, StatsD
from tests.support.waiting import WAIT_SECONDS

LINE = re.compile(r"^tenure\.[\w.-]+:-?[0-9.]+\|(c|g|ms|h)(\|#[^|]+)?$")


@pytest.fixture
def server():
    """A socket that receives what StatsD would receive."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(WAIT_SECONDS)
        yield receiver


@pytest.fixture
def client(server, monkeypatch):
    """Makes collectors that send to the server, but not by themselves."""
    monkeypatch.setattr(statsd, "_SEND_INTERVAL", 3600.0)
    made = []

    def make(**options):
        made.append(StatsD("127.0.0.1", server.getsockname()[1], **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def received(server):
    """The packets that have arrived."""
    server.settimeout(0)
    packets = []
    while True:
        try:
            packets.append(server.recv(1 << 16).decode())
        except BlockingIOError:
            return packets


def lines(server):
    return [line for packet in received(server) for line in packet.split("\n")]


def test_counters_gauges_and_timings_have_the_labels_in_their_names(server, client):
    collector = client()
    collector.increment("jobs_succeeded", 3, queue="e.mails")
    collector.increment("jobs_succeeded", 2, queue="e.mails")
    collector.increment("queue_enqueue_total", status="success", queue="mail", backend="sqlite")
    collector.increment("jobs_failed", 0, queue="mail")
    collector.observe_all("jobs_exec_seconds", [0.25, 0.0005], queue="mail")
    collector.observe("settle_batch", 7)
    collector.gauge("tenure_queue_jobs", 1, queue="mail", state="ready")
    collector.gauge("tenure_queue_jobs", 0, queue="mail", state="ready")
    collector.flush()
    assert lines(server) == [
        "tenure.jobs_succeeded.e_mails:5|c",
        "tenure.queue_enqueue.sqlite.mail.success:1|c",
        "tenure.queue_jobs.mail.ready:0|g",
        "tenure.jobs_exec.mail:250|ms",
        "tenure.jobs_exec.mail:0.5|ms",
        "tenure.settle_batch:7|ms",
    ]


def test_a_label_without_a_value_keeps_its_place_in_the_name(server, client):
    collector = client()
    collector.gauge("tenure_outbox_jobs", 4, outbox="shop", backend="")
    collector.flush()
    assert lines(server) == ["tenure.outbox_jobs._.shop:4|g"]


def test_a_label_that_is_no_text_costs_no_other_line(server, client):
    collector = client(format="dogstatsd")
    collector.increment("orders", shop=7, file="caf\udce9")
    collector.increment("jobs_succeeded")
    collector.flush()
    assert lines(server) == [r"tenure.orders:1|c|#file:caf\udce9,shop:7", "tenure.jobs_succeeded:1|c"]


def test_an_agent_of_datadog_gets_the_labels_as_tags(server, client):
    collector = client(prefix="shop.jobs", format="dogstatsd")
    collector.increment("jobs_succeeded", queue="a|b,c\n#d", backend="redis")
    collector.observe("settle_batch", 7)
    collector.observe("jobs_age_seconds", 1.5, queue="mail")
    collector.flush()
    assert lines(server) == [
        "shop.jobs.jobs_succeeded:1|c|#backend:redis,queue:a_b_c__d",
        "shop.jobs.settle_batch:7|h",
        "shop.jobs.jobs_age:1500|ms|#queue:mail",
    ]


def test_names_and_labels_cannot_break_a_line(server, client):
    collector = client()
    collector.increment("my jobs:1|c\n", queue="x:2|c\nother")
    collector.flush()
    (line,) = lines(server)
    assert line == "tenure.my_jobs_1_c_.x_2_c_other:1|c"


def test_many_values_are_sent_in_few_packets_that_fit_into_a_frame(server, client):
    collector = client()
    collector.observe_all("jobs_exec_seconds", [0.001] * 1000, queue="mail")
    collector.increment("jobs_succeeded", queue="q" * 2000)  # too long for any packet
    collector.flush()
    found = received(server)
    assert sum(len(packet.split("\n")) for packet in found) == 1000
    assert max(map(len, found)) <= 1432
    assert len(found) < 25


def test_what_is_counted_is_sent_soon_without_being_asked(server, client, monkeypatch):
    monkeypatch.setattr(statsd, "_SEND_INTERVAL", 0.01)
    client().increment("jobs_succeeded", queue="mail")
    assert server.recv(MAX_PACKET) == b"tenure.jobs_succeeded.mail:1|c"


def test_the_rest_is_sent_at_the_end_of_a_process(server, start, finish):
    code = (
        "import sys\nfrom tenure.metrics.statsd import StatsD\n"
        "StatsD('127.0.0.1', int(sys.argv[1])).increment('jobs_succeeded', queue='mail')\n"
    )
    finish(start(code, server.getsockname()[1]))
    assert lines(server) == ["tenure.jobs_succeeded.mail:1|c"]


def test_a_forked_process_sends_what_it_counts_and_nothing_twice(server, start, finish):
    code = """
import os, sys
from tenure.metrics import statsd

statsd._SEND_INTERVAL = 3600.0
collector = statsd.StatsD("127.0.0.1", int(sys.argv[1]))
collector.increment("in_parent")
pid = os.fork()
if pid == 0:
    collector.increment("in_child")
    collector.flush()
    os._exit(0)
os.waitpid(pid, 0)
pid = os.fork()
if pid == 0:
    sys.exit()  # it counted nothing
os.waitpid(pid, 0)
collector.flush()
"""
    finish(start(code, server.getsockname()[1]))
    assert lines(server) == ["tenure.in_child:1|c", "tenure.in_parent:1|c"]


def test_a_server_that_is_not_there_is_logged_once_and_disturbs_nobody(client, caplog):
    collector = StatsD("no-such-host.invalid", 8125)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            collector.increment("jobs_succeeded")
            collector.flush()
    collector.close()
    assert (
        len([each for each in caplog.records if "not sent to StatsD at no-such-host.invalid:8125" in each.message]) == 1
    )


def test_a_name_server_that_does_not_answer_holds_up_no_process_that_ends(monkeypatch):
    released, answered = threading.Event(), []

    def look_up(*args, **options):
        answered.append(released.wait(WAIT_SECONDS))
        raise OSError("no answer")

    monkeypatch.setattr(statsd, "_CLOSE_TIMEOUT", 0.01)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    collector = StatsD("slow.invalid")
    collector.increment("jobs_succeeded")
    collector.close()
    assert answered == []
    released.set()
    collector._thread.join()


def test_a_closed_port_fails_nothing(client, server):
    collector = client()
    server.close()
    for _ in range(3):
        collector.increment("jobs_succeeded")
        collector.flush()


def test_timings_that_cannot_be_sent_do_not_fill_the_memory(server, client, monkeypatch):
    monkeypatch.setattr(statsd, "_MAX_TIMINGS", 10)
    collector = client()
    for _ in range(5):
        collector.observe_all("jobs_exec_seconds", [1.0] * 4, queue="mail")
    collector.flush()
    assert len(lines(server)) == 10


def test_a_worker_sends_its_counters_timings_and_the_gauges_of_the_queues(server, tmp_path):
    port = server.getsockname()[1]
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", metrics=f"statsd://127.0.0.1:{port}?format=dogstatsd") as app:

        @app.job
        def greet():
            pass

        greet.enqueue()
        greet.using(queue="other").enqueue()
        worker = app.worker("default", burst=True)
        worker.run()
        app.metrics.close()
    found = lines(server)
    assert [line for line in found if not LINE.match(line)] == []
    assert "tenure.jobs_succeeded:1|c|#queue:default" in found
    assert "tenure.queue_enqueue:1|c|#backend:sqlite,queue:other,status:success" in found
    assert "tenure.backend_up:1|g" in found
    assert "tenure.queue_jobs:1|g|#queue:other,state:ready" in found
    assert any(line.startswith("tenure.jobs_exec:") and line.endswith("|ms|#queue:default") for line in found)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("statsd://localhost:8125?prefx=a", "unknown option 'prefx'"),
        ("statsd://localhost:port", "bad port"),
        ("statsd://localhost?format=graphite", "must be statsd or dogstatsd"),
    ],
)
def test_a_wrong_url_is_refused_in_plain_words(url, complaint):
    with pytest.raises(SettingsError, match=complaint):
        Tenure("memory://", metrics=url)


def test_a_url_may_leave_out_all_but_the_host():
    with Tenure("memory://", metrics="statsd://localhost") as app:
        assert isinstance(app.metrics, StatsD)
        assert app.metrics.snapshot() == {"counters": {}, "histograms": {}}
