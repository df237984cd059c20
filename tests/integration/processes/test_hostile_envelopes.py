"""Validly signed envelopes with hostile values in every field, on the runners that use child processes."""

import pytest

from tenure.backends.messages import Message
from tests.support.hostile_envelopes import GUARDED, HostileEnvelopes

COUNT = 300


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_hostile_envelopes_affect_only_their_own_jobs_on_every_runner(site, runner, nobody_left):
    drawn = HostileEnvelopes(site.app.open_backend().wire.ring, 2001, "default", "quick", {"number": 1})
    hostile = [drawn.draw() for _ in range(COUNT)]
    good = []
    for first in range(0, COUNT, 20):
        part = hostile[first : first + 20]
        site.app.backend.put([Message(id=each.id, queue="default", body=each.body, handler="quick") for each in part])
        good.append(site.shop.quick.enqueue(number=first))

    worker = site.work(runner, 2, "--burst", TENURE_UNKNOWN_TIMEOUT="0", TENURE_EXECUTION_LOG="execution.log")
    ended = worker.end()

    assert ended.code == 1, ended.err  # jobs died
    assert [site.job(id).state for id in good] == ["done"] * len(good)
    records = [site.job(each.id) for each in hostile]
    waiting = [each for each, record in zip(hostile, records, strict=True) if record.state in ("parked", "delayed")]
    assert all(each.fields & GUARDED for each in waiting), waiting  # a burst does not wait for a guard
    assert {record.state for record in records} <= {"done", "dead", "expired", "parked", "delayed"}
    assert all(record.reason and record.failures for record in records if record.state == "dead")
    assert sum(record.state == "done" for record in records) > COUNT / 20
    nobody_left(worker)
