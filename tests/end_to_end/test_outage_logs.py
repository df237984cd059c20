"""What a worker logs while its server is away."""

import re
import signal

from tests.support.waiting import STOP_SECONDS

KEYS = "main:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"


def test_an_outage_is_a_line_at_its_beginning_one_for_each_pause_and_one_at_its_end(tenure, own_server, eventually):
    server = own_server("postgresql", durable=True)  # the tables must outlive the kill
    place = {"TENURE_URL": server.url, "TENURE_KEYS": KEYS}
    worker = tenure.without("JOURNAL_STREAM").start("work", "--runner", "inline", **place)
    worker.stdout.readline()
    server.kill()
    lines = [worker.stderr.readline() for _ in range(4)]
    server.start()
    while "answers again" not in lines[-1]:
        lines.append(worker.stderr.readline())
    worker.send_signal(signal.SIGTERM)
    lines += worker.communicate(timeout=STOP_SECONDS)[1].splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ WARNING: ", line) for line in lines[:-1])
    texts = [line.partition("WARNING: ")[2] for line in lines[:-1]]
    begins = [text for text in texts if "failed, trying again" in text]
    pauses = [float(found[1]) for text in texts if (found := re.search(r"the next try .* is in ([\d.]+) s", text))]
    ends = [text for text in texts if "answers again" in text]
    assert (len(begins), len(ends)) == (1, 1)
    assert len([text for text in texts if "nothing is reaped" not in text]) == 2 + len(pauses)  # that, after 5 s
    assert pauses == sorted(pauses)
