"""Validly signed envelopes with hostile values in every field, on the runners that use child processes."""

import pytest

from tenure.backends.messages import Message
from tenure.wire.envelope import follower_id
from tests.support.hostile_envelopes import GUARDED, HostileEnvelopes
from tests.support.hostile_messages import extremes

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


@pytest.mark.parametrize("runner", ["inline", "process", "threads", "event_loop"])
def test_nesting_sizes_and_repeated_names_end_alike_on_every_runner(site, runner, nobody_left):
    hostile = extremes(site.app.open_backend().wire.ring, "parcel", "default")
    for id, (body, _) in hostile.items():
        site.app.backend.put([Message(id=id, queue="default", body=body, handler="parcel")])
    good = site.shop.quick.enqueue(number=1)

    worker = site.work(runner, 1, "--burst")
    ended = worker.end()

    assert ended.code == 1, ended.err  # jobs died
    records = {id: site.job(id) for id in hostile}
    assert {id: record.state for id, record in records.items()} == {id: end for id, (_, end) in hostile.items()}
    dead = [record for record in records.values() if record.state == "dead"]
    assert {(record.reason, record.crashes) for record in dead} == {("malformed", 0)}
    followers = [site.job(follower_id(id, "then:0")) for id in ("64-levels-in-callbacks", "twice-in-callbacks")]
    outputs = [record.output for record in (*followers, records["twice-in-payload"])]
    assert [output.splitlines()[0] for output in outputs] == ["attempt 1 of Eve", *["attempt 1 of Ada"] * 2]
    assert site.job(good).state == "done"
    nobody_left(worker)
