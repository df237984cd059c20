"""Recent jobs: jobs of any state are listed once, the last enqueued first, and no page reads more than it may."""

from typing import Any

import pytest

from tenure.backends.messages import Abandon, Ack, Nack
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.errors import InvalidFilter
from tenure.events import JOB_STATES
from tenure.testing.conformance.capabilities import ADDED_LETTERS, needs
from tenure.testing.conformance.messages import (
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    expire,
    failure,
    id_of,
    known,
    make,
    make_many,
    make_suspects,
    put_and_take,
)

RARE = "rare"


def walk(backend: FullBackend, limit: int, **wanted: Any) -> list[JobRecord]:
    found, cursor = backend.recent.page(limit=limit, **wanted)
    while cursor is not None:
        page, cursor = backend.recent.page(limit=limit, cursor=cursor, **wanted)
        found = [*found, *page]
    return found


def order(records: list[JobRecord]) -> list[int]:
    return [int(record.id.rpartition("-")[2]) for record in records]


def shown(backend: FullBackend, limit: int = 2, **wanted: Any) -> list[int]:
    return order(walk(backend, limit, **wanted))


def backwards(count: int) -> list[int]:
    return list(range(count - 1, -1, -1))


class RecentJobsTests:
    @needs("recent")
    def test_there_are_no_recent_jobs_at_first(self, backend: FullBackend) -> None:
        assert backend.recent.page(limit=9) == ([], None)
        assert backend.recent.page(limit=9, queues=[QUEUE], handler="greet") == ([], None)

    @needs("recent")
    def test_the_last_enqueued_job_comes_first_whatever_its_priority_and_queue(self, backend: FullBackend) -> None:
        backend.put([make(0), make(1, priority=9), make(2, queue=OTHER)])
        backend.put([make(3, delay=60)])
        backend.put([make(4, priority=0), make(5, queue=OTHER, delay=0.5)])
        for limit in (1, 2, 6, 7):
            assert shown(backend, limit) == backwards(6)

    @needs("recent", "jobs", "dead_letters")
    def test_recent_jobs_of_every_state_are_told_apart(self, backend: FullBackend, clock: AdvancingClock) -> None:
        states = ("parked", "done", "dead", "cancelled", "expired", "leased", "delayed", "ready")
        assert set(states) == set(JOB_STATES)
        make_suspects(backend, clock, make(0))
        for number in range(1, 6):
            (lease,) = put_and_take(backend, make(number, body=b"large"))
            if states[number] == "dead":
                backend.abandon([Abandon(lease=lease, reason="failed", failure=failure(1), charge="attempt")])
            elif states[number] != "leased":
                backend.ack([Ack(lease=lease, state=states[number], reason="over")])  # type: ignore[arg-type]
        backend.put([make(6, delay=60), make(7, priority=8, tags=("billing",))])
        found = walk(backend, 3)
        assert [record.state for record in reversed(found)] == list(states)
        for record, number in zip(reversed(found), range(8), strict=True):
            full = known(backend, number)
            assert record.body is None
            for name in ("id", "queue", "handler", "name", "priority", "attempts", "crashes", "fence", "owner", "tags"):
                assert getattr(record, name) == getattr(full, name)
            assert (record.enqueued_at, record.due_at) == (full.enqueued_at, full.due_at)
            assert (record.finished_at, record.reason, record.failures) == (
                *(full.finished_at, full.reason, full.failures),
            )

    @needs("recent")
    def test_recent_jobs_that_are_leased_together_are_shown_as_leased(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(8)))
        backend.ack([Ack(lease=lease) for lease in leases[:3]])
        found = walk(backend, 3)
        assert order(found) == backwards(8)
        assert [(record.state, record.fence) for record in found] == [("leased", 1)] * 5 + [("done", 1)] * 3
        assert {record.owner for record in found} == {leases[0].owner}

    @needs("recent")
    def test_a_recent_job_that_came_back_keeps_its_place(self, backend: FullBackend, clock: AdvancingClock) -> None:
        leases = put_and_take(backend, make(0), make(1), make(2))
        backend.nack([Nack(lease=leases[0], charge="attempt", failure=failure(1))])
        expire(backend, clock)
        found = walk(backend, 2)
        assert [(number, record.state, record.attempts) for number, record in enumerate(reversed(found))] == [
            *((0, "ready", 1), (1, "ready", 0), (2, "ready", 0)),
        ]
        assert [len(record.failures) for record in reversed(found)] == [1, 1, 1]

    @needs("recent", "dead_letters")
    def test_a_replayed_job_counts_from_its_replay(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(4)))
        backend.abandon([Abandon(lease=lease, reason="failed") for lease in leases[:2]])
        assert [record.state for record in walk(backend, 9)] == ["leased", "leased", "dead", "dead"]
        backend.put([make(4)])
        backend.dead_letters.replay([id_of(1)])
        found = walk(backend, 2)
        assert order(found) == [1, 4, 3, 2, 0]
        assert [record.state for record in found] == ["ready", "ready", "leased", "leased", "dead"]

    @needs("recent", "dead_letters", ADDED_LETTERS)
    def test_an_added_dead_letter_is_a_recent_job(self, backend: FullBackend) -> None:
        backend.put([make(0)])
        backend.dead_letters.add([NewDeadLetter(message=make(1), reason="malformed")])
        assert [(record.id, record.state) for record in walk(backend, 9)] == [(id_of(1), "dead"), (id_of(0), "ready")]

    @needs("recent", "jobs", "dead_letters")
    def test_deleted_jobs_are_not_recent(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(5)))
        backend.ack([Ack(lease=lease) for lease in leases[:2]])
        backend.abandon([Abandon(lease=leases[2], reason="failed")])
        first, cursor = backend.recent.page(limit=2)
        assert backend.jobs.delete([id_of(1)]) == [id_of(1)]
        assert backend.dead_letters.discard([id_of(2)]) == [id_of(2)]
        rest, _ = backend.recent.page(limit=9, cursor=cursor)
        assert (order(first), order(rest)) == ([4, 3], [0])

    @needs("recent")
    def test_recent_jobs_are_selected_by_queue(self, backend: FullBackend) -> None:
        backend.put([make(number, queue=(QUEUE, OTHER, "third")[number % 3]) for number in range(9)])
        assert shown(backend, queues=[OTHER]) == [7, 4, 1]
        assert shown(backend, queues=(QUEUE, "third")) == [8, 6, 5, 3, 2, 0]
        assert (shown(backend, queues=["none"]), shown(backend, queues=())) == ([], backwards(9))

    @needs("recent")
    def test_recent_jobs_are_selected_by_handler(self, backend: FullBackend) -> None:
        backend.put(
            [make(n, handler=RARE if n % 4 == 0 else "greet", queue=OTHER if n % 8 else QUEUE) for n in range(16)]
        )
        for limit in (1, 2, 4, 9):
            assert shown(backend, limit, handler=RARE) == [12, 8, 4, 0]
        assert shown(backend, handler=RARE, queues=[OTHER]) == [12, 4]
        assert shown(backend, handler="Rare") == shown(backend, handler="%") == []

    @needs("recent")
    def test_a_page_of_recent_jobs_goes_on_below_its_last_job(self, backend: FullBackend) -> None:
        backend.put(make_many(range(6)))
        for wanted in ({}, {"handler": "greet"}):
            first, cursor = backend.recent.page(limit=2, **wanted)  # type: ignore[arg-type]
            backend.put([make(7 + len(wanted))])
            rest, _ = backend.recent.page(limit=9, cursor=cursor, **wanted)  # type: ignore[arg-type]
            assert order(first)[-1] - 1 == order(rest)[0]
            assert len(rest) == order(rest)[0] + 1

    @needs("recent")
    def test_a_page_of_recent_jobs_reads_no_more_jobs_than_it_may(self, backend: FullBackend) -> None:
        backend.put([make(number, handler=RARE if number % 8 == 0 else "greet") for number in range(19)])
        cursor = None
        for expected in ([16], [], [8], [0]):
            page, cursor = backend.recent.page(limit=9, cursor=cursor, handler=RARE, max_read=5)
            assert (order(page), cursor is None) == (expected, expected == [0])

    @needs("recent")
    def test_a_page_that_may_read_less_than_its_limit_is_short(self, backend: FullBackend) -> None:
        backend.put(make_many(range(5)))
        page, cursor = backend.recent.page(limit=9, max_read=3)
        assert order(page) == [4, 3, 2]
        assert order(backend.recent.page(limit=9, cursor=cursor, max_read=3)[0]) == [1, 0]

    @needs("recent")
    def test_recent_jobs_are_found_behind_many_others(self, backend: FullBackend) -> None:
        backend.put([make(number, handler=RARE if number % 700 == 0 else "greet") for number in range(3000)])
        expected = [2800, 2100, 1400, 700, 0]
        assert order(backend.recent.page(limit=9, handler=RARE)[0]) == expected
        for limit, max_read in ((1, 10_000), (2, 900), (9, 333)):
            assert shown(backend, limit, handler=RARE, max_read=max_read) == expected

    @needs("recent")
    @pytest.mark.parametrize("cursor", ["", "x", "1.5", "-1", "٣", "9" * 40, '[1,"a"]'])
    def test_a_wrong_cursor_of_recent_jobs_is_refused(self, backend: FullBackend, cursor: str) -> None:
        with pytest.raises(InvalidFilter, match="is not the cursor of a page of recent jobs"):
            backend.recent.page(limit=9, cursor=cursor)
