"""`tenure work --metrics-port` serves one page for all workers of a command."""

import os
import signal
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from tenure import __version__


def fetched(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    return {
        (each.name, *(value for _, value in sorted(each.labels.items()))): each.value
        for family in parsed(text)
        for each in family.samples
    }


def address(worker):
    for line in worker.stdout:
        if line.startswith("Metrics at "):
            return line.removeprefix("Metrics at ").strip()
    raise AssertionError(worker.stderr.read())


@pytest.mark.parametrize("processes", [[], ["--processes", "2"]], ids=["one worker", "two under a supervisor"])
def test_a_page_tells_of_jobs_and_queues(tenure, eventually, processes):
    tenure.enqueue("note")
    tenure.enqueue("note", "--queue", "other")
    tenure.enqueue("die", "--queue", "crashes")
    worker = tenure.start("work", *processes, "--concurrency", "1", "--metrics-port", "0", "default", "crashes")
    url = address(worker)
    assert url.startswith("http://127.0.0.1:")
    eventually(lambda: fetched(url).get(("tenure_jobs_succeeded_total", "default")) == 1)
    found = fetched(url)
    assert found["tenure_jobs_fetched_total", "default"] >= 1
    assert found["tenure_jobs_exec_seconds_count", "default"] == 1
    assert found["tenure_queue_ack_total", "sqlite", "default"] == 1
    assert found["tenure_queue_jobs", "other", "ready"] == 1
    assert found["tenure_worker_memory_bytes",] > 1_000_000
    assert found["tenure_build_info", __version__] == 1
    eventually(lambda: fetched(url)["tenure_jobs_crashed_total", "crashes"] > 0)
    eventually(lambda: fetched(url)["tenure_worker_slots",] == (2 if processes else 1))
    assert found["tenure_queue_oldest_age_seconds", "other"] > 0
    if processes:
        (pid, *_) = (int(each["pid"]) for each in tenure.json("workers"))
        os.kill(pid, signal.SIGKILL)
        assert fetched(url)["tenure_jobs_succeeded_total", "default"] == 1
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
