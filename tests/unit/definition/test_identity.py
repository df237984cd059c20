"""Job ids are UUIDs of version 7, in order within a process and by time across processes."""

import random
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from tenure.definition.job import new_id


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
        "import os; from tenure.definition.job import new_id; new_id()\n"
        "child = os.fork(); id = new_id()[19:]\n"
        "child and os.waitpid(child, 0); print(id)"
    )

    drawn = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert len(set(drawn)) == 2
