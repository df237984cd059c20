"""Sentry with real child processes: each sends what it saw to a server, which the tests read."""

import gzip
import json
import re
from collections.abc import Callable, Iterator

import pytest
from sentry_sdk.envelope import Envelope

from tenure import Tenure
from tests.support.http_server import Server, response

SENTRY = """
import asyncio, os, signal, time
import sentry_sdk
from sentry_sdk.transport import HttpTransport
from tenure.integrations.sentry import TenureIntegration


class AtOnce(HttpTransport):
    def capture_envelope(self, envelope):
        super().capture_envelope(envelope)
        self.flush(timeout=60)


sentry_sdk.init(
    dsn="http://key@127.0.0.1:{port}/1",
    traces_sample_rate=1.0,
    transport={transport},
    auto_enabling_integrations=False,
    integrations=[TenureIntegration(app)],
)


@app.job
def tagged(number: str):
    sentry_sdk.set_tag("own", number)
    time.sleep(0.05)
    raise ValueError(f"job {{number}}")


@app.job
async def tagged_later(number: str):
    sentry_sdk.set_tag("own", number)
    await asyncio.sleep(0.05)
    raise ValueError(f"job {{number}}")


@app.job(max_crashes=0)
def crash():
    os.kill(os.getpid(), signal.SIGKILL)


@app.job(timeout=0.1)
def ignore_timeout():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""


class Received:
    """What the server got, as Sentry would read it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def of(self, kind: str) -> list[dict]:
        found = []
        for request in self._server.requests:
            head, _, body = request.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            if length is None or len(body) < int(length[1]):
                continue  # its sender was killed
            plain = gzip.decompress(body) if b"content-encoding: gzip" in head.lower() else body
            items = Envelope.deserialize(plain).items
            found += [item.payload.json for item in items if item.headers["type"] == kind]
        return found


@pytest.fixture
def receive(tenure) -> Iterator[Callable[[str], Received]]:
    """Starts a server, and lets the app send to it by this transport."""
    servers = []

    def receive(transport: str) -> Received:
        servers.append(server := Server(response(200, b"{}", Connection="close")))
        shop = tenure.folder / "shop.py"
        shop.write_text(shop.read_text() + SENTRY.format(port=server.port, transport=transport))
        return Received(server)

    yield receive
    for server in servers:
        server.close()


RUNNERS = ("process", "threads", "event_loop")
LANES = {
    "alone": {"queues": ["process"], "runner": "process", "concurrency": 2},
    "side": {"queues": ["threads"], "runner": "threads", "concurrency": 4},
    "loop": {"queues": ["event_loop"], "runner": "event_loop", "concurrency": 4},
}


@pytest.mark.slow
def test_children_of_each_runner_and_their_worker_report_each_dead_job_once(tenure, receive):
    received = receive("AtOnce")  # a child has two seconds for what it has not sent when it ends
    with Tenure(f"sqlite:///{tenure.folder}/jobs.db") as app:
        jobs = [(queue, "tagged_later" if queue == "event_loop" else "tagged") for queue in RUNNERS]
        for name in ("tagged", "tagged_later", "crash", "ignore_timeout"):
            app.register(name, type("Named", (), {"handle": lambda self, payload: None}))
        for queue, handler in jobs:
            for number in range(3):
                app.define(handler, {"number": f"{queue} {number}"}).queue(queue).dispatch()
        app.enqueue(app.define("crash", {}).queue("process").build().replace(max_crashes=0))
        app.define("ignore_timeout", {}).queue("process").timeout(0.1).dispatch()
    tenure.environment["TENURE_LANES"] = json.dumps(LANES)
    assert tenure("work", "--burst").returncode == 1  # jobs died
    events = {event["exception"]["values"][-1]["value"]: event for event in received.of("event")}
    raised = {f"job {queue} {number}" for queue in RUNNERS for number in range(3)}
    assert len(received.of("event")) == len(events) == len(raised) + 2
    assert all(events[each]["tags"]["own"] == each.removeprefix("job ") for each in raised)
    (killed,) = [event for event in events.values() if event["transaction"] == "crash"]
    assert "was killed by SIGKILL" in killed["exception"]["values"][0]["value"]
    assert killed["tags"]["tenure.reason"] == "crash_loop"
    (stopped,) = [event for event in events.values() if event["transaction"] == "ignore_timeout"]
    assert "ignored its timeout" in stopped["exception"]["values"][0]["value"]
    sent = sorted(each["transaction"] for each in received.of("transaction"))
    assert sent == ["tagged"] * 6 + ["tagged_later"] * 3


@pytest.mark.slow
@pytest.mark.timing
def test_a_child_that_is_replaced_or_stopped_sends_its_last_events(tenure, receive):
    received = receive("None")  # the usual one, which sends from a thread
    with Tenure(f"sqlite:///{tenure.folder}/jobs.db") as app:
        app.register("fail", type("Named", (), {"handle": lambda self, payload: None}))
        for number in range(3):
            app.define("fail", {"text": f"job {number}"}).dispatch()
    tenure.environment["TENURE_RECYCLE_AFTER"] = "2"
    tenure("work", "--burst", "--runner", "process", "--concurrency", "1")
    values = [event["exception"]["values"][-1]["value"] for event in received.of("event")]
    assert sorted(values) == ["job 0", "job 1", "job 2"]
