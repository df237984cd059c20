"""Dead letters: all data of a job is stored, pages are stable, and a replay resets the counters."""

import pytest

from tenure.backends.job_filter import JobFilter, search_dead_letters
from tenure.backends.messages import Abandon, Ack
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.testing.conformance.capabilities import ADDED_LETTERS, PLACES, UNIQUE_IDS, needs
from tenure.testing.conformance.messages import (
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    expire,
    fail_times,
    failure,
    id_of,
    known,
    make,
    make_many,
    numbers,
    put_and_take,
    take,
    take_all,
)


def kill(backend: FullBackend, *messages: int, queue: str = QUEUE) -> None:
    """Put these messages and abandon each."""
    backend.put([make(number, queue=queue) for number in messages])
    leases = take_all(backend, len(messages), queue)
    backend.abandon([Abandon(lease=lease, reason="failed") for lease in leases])


def a_few_dead(backend: FullBackend, clock: AdvancingClock) -> list[JobRecord]:
    """Four dead letters that differ in every field of a filter; 2 and 3 died together, between the others."""
    for group in ([make(1)], [make(2, handler="pay"), make(3, queue=OTHER)], [make(4, name="a Birthday card")]):
        backend.put(group)
        leases = [lease for message in group for lease in take_all(backend, 1, message.queue)]
        reasons = {1: "timeout", 2: "crash_loop", 3: "timeout", 4: "forbidden"}
        backend.abandon(
            [
                Abandon(lease=each, reason=reasons[n], failure=failure(n))
                for n, each in zip(numbers(leases), leases, strict=True)
            ]
        )
        clock.advance(0.1)
    return backend.dead_letters.page()


_FILTERS: tuple[tuple[JobFilter, list[int]], ...] = (
    (JobFilter(), [1, 2, 3, 4]),
    (JobFilter(queue=OTHER), [3]),
    (JobFilter(handler="pay"), [2]),
    (JobFilter(reason="timeout"), [1, 3]),
    (JobFilter(reason="timeout", queue=QUEUE), [1]),
    (JobFilter(text="birthDAY"), [4]),
    (JobFilter(text="valueerror: NO 2"), [2]),
    (JobFilter(text="nowhere"), []),
)


class DeadLetterTests:
    def test_an_abandoned_message_is_not_leased_again(self, backend: FullBackend, clock: AdvancingClock) -> None:
        kill(backend, 1)
        expire(backend, clock)
        assert take(backend) == []

    @needs("dead_letters")
    def test_an_abandoned_message_keeps_its_bytes_reason_and_errors(self, backend: FullBackend) -> None:
        backend.put([make(1, body=b"\x00\xff body", priority=3)])
        fail_times(backend, 2)
        (lease,) = take_all(backend, 1)
        backend.abandon([Abandon(lease=lease, reason="failed", charge="attempt", failure=failure(2))])
        (record,) = backend.dead_letters.page()
        assert (record.state, record.body, record.reason) == ("dead", b"\x00\xff body", "failed")
        assert record.failures == (failure(0), failure(1), failure(2))
        assert (record.attempts, record.crashes, record.fence, record.owner) == (3, 0, 3, lease.owner)
        assert (record.queue, record.handler, record.name, record.priority) == (QUEUE, "greet", "no 1", 3)

    @needs("dead_letters")
    def test_an_abandoned_message_can_be_charged_a_crash(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.abandon([Abandon(lease=lease, reason="crash_loop", charge="crash")])
        assert [(record.attempts, record.crashes) for record in backend.dead_letters.page()] == [(0, 1)]

    @needs("dead_letters", "jobs")
    def test_a_dead_letter_is_found_as_it_is_listed(self, backend: FullBackend) -> None:
        kill(backend, 1)
        assert [known(backend)] == backend.dead_letters.page()

    @needs("dead_letters")
    def test_dead_letters_are_listed_oldest_first_and_page_by_page(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        kill(backend, 3)
        clock.advance(0.1)
        kill(backend, 1, 2, 4)
        first = backend.dead_letters.page(limit=2)
        second = backend.dead_letters.page(limit=2, after=(first[-1].finished_at or 0, first[-1].id))
        third = backend.dead_letters.page(limit=2, after=(second[-1].finished_at or 0, second[-1].id))
        assert [record.id for record in first + second + third] == [id_of(3), id_of(1), id_of(2), id_of(4)]

    @needs("dead_letters")
    def test_dead_letters_are_listed_by_queue(self, backend: FullBackend) -> None:
        kill(backend, 1)
        kill(backend, 2, 3, queue=OTHER)
        first = backend.dead_letters.page(queue=OTHER, limit=1)
        second = backend.dead_letters.page(queue=OTHER, limit=5, after=(first[0].finished_at or 0, first[0].id))
        assert [record.id for record in first + second] == [id_of(2), id_of(3)]

    @needs("dead_letters")
    def test_dead_letters_are_found_by_what_is_known_of_them(self, backend: FullBackend, clock: AdvancingClock) -> None:
        a_few_dead(backend, clock)
        for wanted, expected in _FILTERS:
            for size in (1, 3, 500):
                chosen = list(search_dead_letters(backend.dead_letters, wanted, size))
                assert all(0 < len(page) <= size for page in chosen), wanted
                found = [letter.id for page in chosen for letter in page]
                assert found == [id_of(number) for number in expected], wanted

    @needs("dead_letters")
    def test_dead_letters_are_found_by_their_age(self, backend: FullBackend, clock: AdvancingClock) -> None:
        letters = a_few_dead(backend, clock)
        since, before = letters[1].finished_at, letters[3].finished_at
        for size in (1, 2, 500):
            between = list(search_dead_letters(backend.dead_letters, JobFilter(since=since, before=before), size))
            assert [letter.id for page in between for letter in page] == [id_of(2), id_of(3)]

    @needs("dead_letters")
    def test_what_is_found_may_be_replayed_before_the_next_page(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        a_few_dead(backend, clock)
        asked = JobFilter(reason="timeout")
        pages = search_dead_letters(backend.dead_letters, asked, 1)
        assert [backend.dead_letters.replay([page[0].id]) for page in pages] == [
            [id_of(1)],
            [id_of(3)],
        ]

    @needs("dead_letters")
    def test_a_replayed_message_starts_afresh_and_keeps_its_id_and_bytes(self, backend: FullBackend) -> None:
        backend.put([make(1, body=b"as it was")])
        fail_times(backend, 2)
        backend.abandon([Abandon(lease=take_all(backend, 1)[0], reason="failed", charge="attempt")])
        assert backend.dead_letters.replay([id_of(1)]) == [id_of(1)]
        (lease,) = take_all(backend, 1)
        assert (lease.id, lease.body, lease.attempts, lease.crashes, lease.vanished) == (
            id_of(1),
            b"as it was",
            0,
            0,
            False,
        )
        assert backend.dead_letters.page() == []

    @needs("dead_letters", "jobs")
    def test_a_replayed_message_keeps_the_failures_of_its_former_life(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 2)
        backend.abandon([Abandon(lease=take_all(backend, 1)[0], reason="failed", charge="attempt", failure=failure(2))])
        backend.dead_letters.replay([id_of(1)])
        assert known(backend).failures == (failure(0), failure(1), failure(2))

    @needs("dead_letters")
    def test_the_fence_grows_with_every_lease_and_survives_a_replay(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 2)
        (last,) = take_all(backend, 1)
        backend.abandon([Abandon(lease=last, reason="failed")])
        backend.dead_letters.replay([id_of(1)])
        (lease,) = take_all(backend, 1)
        assert (last.fence, lease.fence) == (3, 4)
        assert backend.ack([Ack(lease=last)]) == [last]

    @needs("dead_letters")
    def test_a_replayed_message_is_due_from_the_moment_of_its_replay(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        (before,) = put_and_take(backend, make(1))
        backend.abandon([Abandon(lease=before, reason="failed")])
        clock.advance(1.0)
        backend.dead_letters.replay([id_of(1)])
        (lease,) = take_all(backend, 1)
        assert lease.due - before.due >= 1_000_000

    @needs("dead_letters", PLACES)
    def test_replayed_messages_wait_behind_their_priority_in_the_order_they_were_first_put(
        self, backend: FullBackend
    ) -> None:
        kill(backend, 1, 2)
        backend.put([make(3), make(4, priority=1)])
        backend.dead_letters.replay([id_of(2), id_of(1)])
        assert numbers(take(backend, 10)) == [3, 1, 2, 4]

    @needs("dead_letters")
    def test_a_replay_names_only_the_ids_that_were_dead(self, backend: FullBackend) -> None:
        kill(backend, 1)
        backend.put([make(2)])
        assert backend.dead_letters.replay([id_of(1), id_of(1), id_of(2), id_of(9)]) == [id_of(1)]
        assert backend.dead_letters.replay([id_of(1)]) == []
        assert drain(backend, 10, expected=2) == [2, 1]

    @needs("dead_letters", "jobs")
    def test_a_discarded_dead_letter_is_gone_for_good(self, backend: FullBackend) -> None:
        kill(backend, 1, 2)
        assert backend.dead_letters.discard([id_of(1), id_of(9)]) == [id_of(1)]
        assert backend.jobs.find(id_of(1)) is None
        assert [record.id for record in backend.dead_letters.page()] == [id_of(2)]

    @needs("dead_letters", "jobs")
    @pytest.mark.parametrize("verb", ["replay", "discard"])
    def test_live_messages_are_no_dead_letters(self, backend: FullBackend, verb: str) -> None:
        put_and_take(backend, make(1))
        backend.put([make(2)])
        before = (known(backend, 1), known(backend, 2))
        assert getattr(backend.dead_letters, verb)([id_of(1), id_of(2)]) == []
        assert (known(backend, 1), known(backend, 2)) == before

    @needs("dead_letters")
    def test_a_replayed_message_can_die_again(self, backend: FullBackend) -> None:
        kill(backend, *range(1, 4))
        backend.dead_letters.replay([id_of(2)])
        backend.abandon([Abandon(lease=take_all(backend, 1)[0], reason="again")])
        assert sorted((record.id, record.reason) for record in backend.dead_letters.page()) == [
            (id_of(1), "failed"),
            (id_of(2), "again"),
            (id_of(3), "failed"),
        ]

    @needs("dead_letters")
    def test_many_dead_letters_can_be_replayed_at_once(self, backend: FullBackend) -> None:
        kill(backend, *range(300))
        assert len(backend.dead_letters.replay([message.id for message in make_many(range(300))])) == 300
        assert drain(backend, 100, expected=300) == list(range(300))

    @needs("dead_letters", ADDED_LETTERS)
    def test_a_buried_message_is_a_dead_letter_that_was_never_leased(self, backend: FullBackend) -> None:
        letter = make(1, body=b"\x00\xff body", priority=3)
        assert backend.dead_letters.add(
            [NewDeadLetter(message=letter, reason="by hand", attempts=4, failure=failure(4))]
        ) == [id_of(1)]
        (record,) = backend.dead_letters.page()
        assert (record.state, record.body, record.reason) == ("dead", b"\x00\xff body", "by hand")
        assert (record.attempts, record.crashes, record.fence, record.owner) == (4, 0, 0, None)
        assert (record.queue, record.handler, record.name, record.priority) == (QUEUE, "greet", "no 1", 3)
        assert (record.failures, record.finished_at) == ((failure(4),), record.enqueued_at)
        assert take(backend) == []

    @needs("dead_letters", ADDED_LETTERS)
    def test_buried_messages_are_listed_and_replayed_as_others_that_died(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        backend.dead_letters.add([NewDeadLetter(message=make(n), reason="by hand") for n in (1, 2)])
        backend.dead_letters.add([NewDeadLetter(message=make(3, queue=OTHER), reason="by hand")])
        clock.advance(0.1)
        kill(backend, 4)
        assert [record.id for record in backend.dead_letters.page()] == [id_of(1), id_of(2), id_of(3), id_of(4)]
        assert sorted(backend.dead_letters.replay([id_of(1), id_of(3)])) == [id_of(1), id_of(3)]
        (lease,) = take(backend, 9, OTHER)
        assert (lease.id, lease.body, lease.attempts, lease.fence) == (id_of(3), b"{}", 0, 1)
        assert drain(backend, 9) == [1]

    @needs("dead_letters", ADDED_LETTERS, UNIQUE_IDS)
    def test_a_message_that_is_known_is_not_buried(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        kill(backend, 2, queue=OTHER)
        letters = [
            NewDeadLetter(message=make(n, queue=QUEUE if n != 2 else OTHER), reason="by hand") for n in (1, 2, 3, 3)
        ]
        assert backend.dead_letters.add(letters) == [id_of(3)]
        assert sorted((record.id, record.reason) for record in backend.dead_letters.page()) == [
            (id_of(2), "failed"),
            (id_of(3), "by hand"),
        ]
        assert drain(backend, 9) == [1]
