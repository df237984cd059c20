"""Pages of jobs: every job of a state is shown once, in order, a page at a time, without its body.

The age of a queue is that of the job that has waited longest, in any priority.
"""

import pytest

from tenure.backends.messages import Abandon, Ack, Nack
from tenure.backends.records import JobRecord
from tenure.events import JOB_STATES
from tenure.testing.conformance.capabilities import needs
from tenure.testing.conformance.messages import (
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    failure,
    id_of,
    kept_body,
    make,
    put_and_take,
    take,
)


def walk(backend: FullBackend, state: str, limit: int, *, before: int | None = None) -> list[JobRecord]:
    found, cursor = backend.jobs.page(state, QUEUE, limit=limit, before=before)
    while cursor is not None:
        page, cursor = backend.jobs.page(state, QUEUE, limit=limit, cursor=cursor, before=before)
        found += page
    return found


def shown(backend: FullBackend, state: str, limit: int = 2) -> list[int]:
    return [int(record.id.rpartition("-")[2]) for record in walk(backend, state, limit)]


class JobPageTests:
    @needs("jobs")
    def test_a_listing_of_nothing_is_empty(self, backend: FullBackend) -> None:
        assert [walk(backend, state, 3) for state in JOB_STATES] == [[]] * len(JOB_STATES)

    @needs("jobs")
    def test_ready_jobs_are_listed_in_the_order_they_run(self, backend: FullBackend) -> None:
        backend.put([make(1), make(2, priority=9), make(3), make(4, priority=0), make(5), make(6, queue=OTHER)])
        assert shown(backend, "ready") == [2, 1, 3, 5, 4]
        assert shown(backend, "ready", 5) == shown(backend, "ready", 100) == [2, 1, 3, 5, 4]

    @needs("jobs")
    def test_delayed_jobs_are_listed_by_when_they_are_due(self, backend: FullBackend) -> None:
        backend.put([make(1, delay=90), make(2, delay=30), make(3, delay=60)])
        assert shown(backend, "delayed") == [2, 3, 1]

    @needs("jobs")
    def test_leased_jobs_are_listed_with_their_holder(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, make(1), make(2), make(3))
        found = walk(backend, "leased", 2)
        assert sorted(record.id for record in found) == [lease.id for lease in leases]
        assert {(record.state, record.owner, record.fence) for record in found} == {("leased", leases[0].owner, 1)}

    @needs("jobs")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired"])
    def test_ended_jobs_are_listed_newest_first(self, backend: FullBackend, clock: AdvancingClock, state: str) -> None:
        for number in range(5):
            (lease,) = put_and_take(backend, make(number))
            backend.ack([Ack(lease=lease, state=state, reason="over")])  # type: ignore[arg-type]
            clock.advance(0.1)
        assert shown(backend, state) == [4, 3, 2, 1, 0]
        assert walk(backend, state, 9)[0].reason == "over"

    @needs("jobs", "dead_letters")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired", "dead"])
    def test_a_listing_may_begin_with_what_ended_before_a_time(
        self, backend: FullBackend, clock: AdvancingClock, state: str
    ) -> None:
        for number in range(6):
            (lease,) = put_and_take(backend, make(number))
            if state == "dead":
                backend.abandon([Abandon(lease=lease, reason="failed")])
            else:
                backend.ack([Ack(lease=lease, state=state)])  # type: ignore[arg-type]
            clock.advance(0.1)
        moments = {int(each.id.rpartition("-")[2]): each.finished_at for each in walk(backend, state, 9)}
        for first, older in ((0, []), (3, [2, 1, 0]), (5, [4, 3, 2, 1, 0])):
            found = walk(backend, state, 2, before=moments[first])
            assert [int(each.id.rpartition("-")[2]) for each in found] == older

    @needs("jobs")
    def test_jobs_that_ended_in_one_batch_are_each_listed_once(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *(make(number) for number in range(7)))
        backend.ack([Ack(lease=lease) for lease in leases])
        assert sorted(shown(backend, "done")) == list(range(7))

    @needs("jobs", "dead_letters")
    def test_dead_letters_are_listed_newest_first_with_their_errors(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        backend.put([make(number) for number in range(3)])
        for number in range(3):
            backend.abandon([Abandon(lease=take(backend)[0], reason="failed", failure=failure(number))])
            clock.advance(0.1)
        assert shown(backend, "dead") == [2, 1, 0]
        assert [record.failures[0].message for record in walk(backend, "dead", 2)] == ["no 2", "no 1", "no 0"]

    @needs("jobs")
    def test_a_listed_job_tells_all_but_its_body(self, backend: FullBackend) -> None:
        backend.put([make(1, body=b"large", priority=8)])
        (record,) = walk(backend, "ready", 9)
        assert (record.id, record.queue, record.handler, record.name) == (id_of(1), QUEUE, "greet", "no 1")
        assert (record.state, record.priority, record.attempts, record.body) == ("ready", 8, 0, None)

    @needs("jobs", "dead_letters")
    def test_a_listing_with_bodies_shows_what_the_backend_keeps(self, backend: FullBackend) -> None:
        backend.abandon([Abandon(lease=put_and_take(backend, make(1, body=b"dead"))[0], reason="failed")])
        backend.ack([Ack(lease=put_and_take(backend, make(2))[0])])
        put_and_take(backend, make(3, body=b"leased"))
        backend.put([make(4, body=b"ready"), make(5, body=b"delayed", delay=60)])
        pages = {state: backend.jobs.page(state, QUEUE, limit=9, bodies=True)[0] for state in JOB_STATES}
        assert [each.body for state in ("dead", "leased", "ready", "delayed") for each in pages[state]] == [
            *(b"dead", b"leased", b"ready", b"delayed")
        ]
        assert [(each.body, each.is_erased) for each in pages["done"]] == [(kept_body(backend), False)]
        assert pages["dead"][0].failures == walk(backend, "dead", 9)[0].failures

    @needs("jobs", "payloads")
    def test_a_listing_with_bodies_tells_which_were_erased(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, make(1), make(2))
        backend.ack([Ack(lease=lease) for lease in leases])
        assert backend.jobs.forget([id_of(1)]) == [id_of(1)]
        found, _ = backend.jobs.page("done", QUEUE, limit=9, bodies=True)
        assert {each.id: (each.body, each.is_erased) for each in found} == {
            id_of(1): (None, True),
            id_of(2): (b"{}", False),
        }
        assert not any(each.is_erased for each in walk(backend, "done", 9))

    @needs("jobs")
    def test_the_queues_with_jobs_of_a_state_are_among_those_named(self, backend: FullBackend) -> None:
        backend.put([make(1), make(2, queue=OTHER), make(3, queue="third", delay=60)])
        assert {QUEUE, OTHER} <= set(backend.jobs.queues_with("ready"))
        assert "third" in backend.jobs.queues_with("delayed")


class QueueAgeTests:
    @needs("jobs")
    def test_an_empty_queue_has_no_age(self, backend: FullBackend) -> None:
        put_and_take(backend, make(1))
        assert _oldest(backend, [QUEUE, OTHER]) == {}

    @needs("jobs")
    def test_the_oldest_job_tells_the_age_of_its_queue(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.put([make(1)])
        clock.advance(2)
        backend.put([make(2), make(3, queue=OTHER), make(4, delay=3600)])
        ages = _oldest(backend, [QUEUE, OTHER, "third"])
        assert ages.keys() == {QUEUE, OTHER}
        assert ages[QUEUE] >= ages[OTHER] + 1.9

    @needs("jobs")
    def test_a_job_that_starves_behind_higher_priorities_is_the_oldest(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        backend.put([make(1, priority=0)])
        clock.advance(2)
        backend.put([make(number, priority=9) for number in range(2, 12)])
        assert _oldest(backend, [QUEUE])[QUEUE] >= 1.9

    @needs("jobs")
    def test_a_delayed_job_counts_from_when_it_is_due(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.put([make(1, delay=1)])
        assert _oldest(backend, [QUEUE]) == {}
        clock.advance(1.5)
        backend.put([make(2)])
        assert _oldest(backend, [QUEUE])[QUEUE] >= 0.4

    @needs("jobs")
    def test_a_job_that_came_back_does_not_age_its_queue(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.put([make(1)])
        clock.advance(2)
        backend.nack([Nack(lease=take(backend)[0])])
        alone = _oldest(backend, [QUEUE])[QUEUE]
        backend.put([make(2)])
        assert alone >= 1.9
        assert _oldest(backend, [QUEUE])[QUEUE] <= alone - 1.9


def _oldest(backend: FullBackend, queues: list[str]) -> dict[str, float]:
    ages = backend.queues.oldest(queues)
    assert ages is not None, "the backend does not know how long jobs have waited"
    return ages
