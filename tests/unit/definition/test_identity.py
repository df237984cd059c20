"""Job ids are UUIDs of version 7, in order within a process and by time across processes."""

import random
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tenure.definition import job
from tenure.definition.job import new_id, new_ids


def test_an_id_is_a_uuid_of_version_7():
    id = uuid.UUID(new_id())

    assert (id.version, id.variant) == (7, uuid.RFC_4122)


def test_an_id_is_written_in_the_usual_form():
    id = new_id()

    assert id == str(uuid.UUID(id))


def test_ids_grow_strictly_within_a_thread():
    ids = [new_id() for _ in range(10_000)]

    assert ids == sorted(set(ids))


def test_ids_are_distinct_and_growing_across_threads():
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda _: [new_id() for _ in range(2_000)], range(8)))

    assert len({id for batch in batches for id in batch}) == 16_000
    assert all(batch == sorted(batch) for batch in batches)


def test_an_id_carries_the_milliseconds_of_its_making():
    before = time.time_ns() // 1_000_000

    made = uuid.UUID(new_id()).int >> 80

    assert before <= made <= time.time_ns() // 1_000_000 + 1_000


def test_a_later_id_sorts_after_an_earlier_one():
    earlier = new_id()
    time.sleep(0.002)  # ids carry the wall clock, which cannot be faked here

    assert new_id() > earlier


def test_seeding_the_shared_random_generator_does_not_repeat_ids():
    random.seed(42)
    one = new_id()[19:]
    random.seed(42)
    other = new_id()[19:]

    assert one != other


def test_a_forked_child_draws_ids_of_its_own():
    script = (
        "import os; from tenure.definition.job import new_id, new_ids; new_id()\n"
        "child = os.fork(); id = new_id()[19:] + new_ids(2)[1][24:]\n"
        "child and os.waitpid(child, 0); print(id[:17], id[17:])"
    )

    drawn = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert len(set(drawn)) == 4


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 10_000])
def test_many_ids_are_as_many_uuids_of_version_7_in_growing_order(count):
    ids = new_ids(count)

    assert len(ids) == count
    assert ids == sorted(set(ids)) == [str(uuid.UUID(id)) for id in ids]
    assert {(uuid.UUID(id).version, uuid.UUID(id).variant) for id in ids} <= {(7, uuid.RFC_4122)}


def test_many_ids_take_one_reading_of_the_clock(monkeypatch):
    readings = []
    clock = SimpleNamespace(time_ns=lambda: readings.append(time.time_ns()) or readings[-1])
    monkeypatch.setattr(job, "time", clock)

    new_ids(1000)

    assert len(readings) == 1


def test_single_ids_and_many_ids_follow_each_other():
    ids = [new_id(), *new_ids(5000), new_id(), *new_ids(3), new_id()]

    assert ids == sorted(set(ids))


def test_ids_keep_growing_while_the_clock_is_set_back(monkeypatch):
    before = new_ids(10)
    monkeypatch.setattr(job, "time", SimpleNamespace(time_ns=lambda: 0))

    ids = [*before, new_id(), *new_ids(5000), new_id()]

    assert ids == sorted(set(ids))


def test_many_ids_are_distinct_and_growing_across_threads():
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda size: [*new_ids(size), new_id()], [1000, 3, 500] * 20))

    assert len({id for batch in batches for id in batch}) == sum(map(len, batches))
    assert all(batch == sorted(batch) for batch in batches)


def test_processes_that_draw_at_the_same_time_differ_in_what_is_random(monkeypatch):
    moment = time.time_ns()
    monkeypatch.setattr(job, "time", SimpleNamespace(time_ns=lambda: moment))
    drawn = []
    for _ in range(2):
        monkeypatch.setattr(job, "_last", 0)
        monkeypatch.setattr(job, "_random", random.Random())
        drawn.append(new_ids(1000))

    assert [id[:18] for id in drawn[0]] == [id[:18] for id in drawn[1]]
    assert len({id[19:] for ids in drawn for id in ids}) == 2000
