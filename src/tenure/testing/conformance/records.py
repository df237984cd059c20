"""Records and retention: every state is named and counted, and only old enough jobs are deleted."""

import pytest

from tenure.backends.messages import Abandon, Ack, Terminal
from tenure.backends.parts import HEAD_BYTES
from tenure.events import END_STATES, JOB_STATES
from tenure.testing.conformance.capabilities import needs
from tenure.testing.conformance.messages import (
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    fail_times,
    failure,
    id_of,
    known,
    make,
    make_many,
    put_and_take,
    take,
)


def end(backend: FullBackend, *messages: int, queue: str = QUEUE, state: Terminal = "done") -> int:
    """Put and end these messages; return when the last one ended, by the backend's clock."""
    backend.put([make(number, queue=queue) for number in messages])
    backend.ack([Ack(lease=lease, state=state) for lease in take(backend, len(messages), queue)])
    return known(backend, messages[-1]).finished_at or 0


def finish(backend: FullBackend, number: int, state: str) -> None:
    """Put and end a message; also as a dead letter."""
    (lease,) = put_and_take(backend, make(number))
    if state == "dead":
        backend.abandon([Abandon(lease=lease, reason="failed")])
    else:
        backend.ack([Ack(lease=lease, state=state)])  # type: ignore[arg-type]


def scan(backend: FullBackend, limit: int) -> list[bytes]:
    found, cursor = backend.control.heads(limit=limit)
    while cursor is not None:
        page, cursor = backend.control.heads(limit=limit, cursor=cursor)
        found += page
    return found


def ids_with_prefix(backend: FullBackend, prefix: str, limit: int = 10) -> list[str]:
    return [record.id for record in backend.jobs.with_prefix(prefix, limit)]


class PrefixTests:
    @needs("jobs", "dead_letters")
    def test_jobs_of_any_state_are_found_by_the_start_of_their_id(self, backend: FullBackend) -> None:
        first, second = put_and_take(backend, *(make(n, id=f"01ab-{n}", tags=("billing",)) for n in (1, 2)))
        backend.ack([Ack(lease=first, reason="over")])
        backend.abandon([Abandon(lease=second, reason="failed", failure=failure(1))])
        put_and_take(backend, make(3, id="01ab-3"))
        backend.put([make(4, id="01ab-4"), make(5, id="01ab-5", queue=OTHER, delay=60), make(6, id="01ac-6")])
        found = backend.jobs.with_prefix("01ab")
        assert [record.id for record in found] == [f"01ab-{number}" for number in range(1, 6)]
        assert [record.state for record in found] == ["done", "dead", "leased", "ready", "delayed"]
        assert [record.tags for record in found] == [("billing",)] * 2 + [()] * 3
        assert (found[0].reason, found[1].failures[0].message) == ("over", "no 1")
        assert {record.body for record in found} == {None}

    @needs("jobs")
    def test_no_more_jobs_are_found_than_asked_for(self, backend: FullBackend) -> None:
        backend.put(make_many(range(20)))
        found = ids_with_prefix(backend, id_of(1)[:-2], 3)
        assert len(set(found)) == 3
        assert set(found) <= {id_of(number) for number in range(20)}
        assert len(ids_with_prefix(backend, id_of(1)[:-2])) == 10

    @needs("jobs")
    def test_a_job_with_exactly_this_id_is_found_alone(self, backend: FullBackend) -> None:
        backend.put([make(number, id=id) for number, id in enumerate(("report-1", "report-10", "report-11"))])
        assert [ids_with_prefix(backend, prefix) for prefix in ("report-1", "report-10")] == [
            ["report-1"],
            ["report-10"],
        ]
        assert ids_with_prefix(backend, "report-") == ["report-1", "report-10", "report-11"]

    @needs("jobs")
    def test_a_prefix_is_no_pattern(self, backend: FullBackend) -> None:
        names = ("a*b", "a?b", "a[b]", "a\\b", "a%b", "a_b", "a^b", "a'b", 'a"b', "aéb", "a𝄞b", "A b")
        backend.put([make(number, id=f"{name}-{number}") for number, name in enumerate(names)])
        assert [ids_with_prefix(backend, f"{name}-") for name in names] == [
            [f"{name}-{number}"] for number, name in enumerate(names)
        ]
        assert [ids_with_prefix(backend, prefix) for prefix in ("*", "a.", "a%b_", "[a]", "AB", "é")] == [[]] * 6

    @needs("jobs")
    def test_an_id_does_not_match_in_its_middle(self, backend: FullBackend) -> None:
        backend.put([make(1, id="abc-1"), make(2, id="bc-2"), make(3, id="ABC-3")])
        assert ids_with_prefix(backend, "bc") == ["bc-2"]
        assert ids_with_prefix(backend, "abc") == ["abc-1"]
        assert ids_with_prefix(backend, "abd") == []


class RecordTests:
    @needs("jobs")
    def test_counts_name_every_state_of_every_queue(self, backend: FullBackend) -> None:
        end(backend, 1)
        end(backend, 2, 3, state="cancelled")
        end(backend, 4, state="expired")
        backend.abandon([Abandon(lease=put_and_take(backend, make(5))[0], reason="failed")])
        put_and_take(backend, make(6))
        backend.put([make(7), make(8), make(9, delay=60), make(10, queue=OTHER)])
        ended = {"done": 1, "dead": 1, "cancelled": 2, "expired": 1}
        assert backend.queues.counts() == {
            QUEUE: {"ready": 2, "delayed": 1, "parked": 0, "leased": 1, **ended},
            OTHER: {**dict.fromkeys(JOB_STATES, 0), "ready": 1},
        }

    @needs("jobs")
    def test_jobs_that_ended_well_need_not_be_counted(self, backend: FullBackend) -> None:
        end(backend, 1)
        end(backend, 2, queue=OTHER)
        backend.abandon([Abandon(lease=put_and_take(backend, make(3))[0], reason="failed")])
        assert backend.queues.counts(ended=False) == {QUEUE: {**dict.fromkeys(JOB_STATES, 0), "dead": 1}}

    @needs("jobs")
    def test_an_empty_backend_counts_nothing(self, backend: FullBackend) -> None:
        assert backend.queues.counts() == {}

    @needs("queues")
    def test_a_backend_without_jobs_counts_no_ends(self, backend: FullBackend) -> None:
        assert [backend.queues.ended_since(state, QUEUE, 0, 10) for state in END_STATES] == [0] * len(END_STATES)

    @needs("jobs", "queues", "dead_letters")
    @pytest.mark.parametrize("state", END_STATES)
    def test_ends_are_counted_from_a_time_on(self, backend: FullBackend, clock: AdvancingClock, state: str) -> None:
        moments = []
        for number in range(5):
            finish(backend, number, state)
            moments.append(known(backend, number).finished_at or 0)
            clock.advance(0.1)
        assert [backend.queues.ended_since(state, QUEUE, moment, 10) for moment in moments] == [5, 4, 3, 2, 1]
        assert backend.queues.ended_since(state, QUEUE, moments[2] + 1, 10) == 2
        assert backend.queues.ended_since(state, QUEUE, moments[4] + 1, 10) == 0

    @needs("jobs", "queues", "dead_letters")
    @pytest.mark.parametrize("state", END_STATES)
    def test_ends_are_counted_up_to_a_limit(self, backend: FullBackend, state: str) -> None:
        for number in range(5):
            finish(backend, number, state)
        assert [backend.queues.ended_since(state, QUEUE, 0, limit) for limit in (1, 4, 5, 6)] == [1, 4, 5, 5]

    @needs("jobs", "queues", "dead_letters")
    def test_only_the_ends_of_one_state_and_queue_are_counted(self, backend: FullBackend) -> None:
        end(backend, 1, 2, 3)
        end(backend, 4, 5, queue=OTHER)
        end(backend, 6, state="expired")
        finish(backend, 7, "dead")
        put_and_take(backend, make(8))
        backend.put([make(9), make(10, delay=60)])
        expected = {"done": 3, "dead": 1, "cancelled": 0, "expired": 1}
        assert {state: backend.queues.ended_since(state, QUEUE, 0, 10) for state in END_STATES} == expected
        assert backend.queues.ended_since("done", OTHER, 0, 10) == 2
        assert backend.queues.ended_since("done", "none", 0, 10) == 0

    @needs("jobs", "queues", "dead_letters")
    def test_a_job_that_is_replayed_or_deleted_is_no_longer_counted_as_ended(self, backend: FullBackend) -> None:
        end(backend, 1, 2)
        finish(backend, 3, "dead")
        backend.dead_letters.replay([id_of(3)])
        backend.jobs.delete([id_of(1)])
        assert [backend.queues.ended_since(state, QUEUE, 0, 10) for state in ("done", "dead")] == [1, 0]

    @needs("jobs", "control")
    def test_a_scan_shows_the_beginning_of_every_message_that_has_not_ended(self, backend: FullBackend) -> None:
        end(backend, 1)
        bodies = {number: b"%d " % number + b"x" * 100 for number in range(2, 8)}
        put_and_take(backend, make(2, body=bodies[2]))
        backend.put([make(number, body=bodies[number], delay=60 * (number % 2)) for number in range(3, 8)])
        assert sorted(scan(backend, 100)) == [body[:HEAD_BYTES] for body in bodies.values()]

    @needs("jobs", "control")
    def test_a_scan_goes_page_by_page(self, backend: FullBackend) -> None:
        backend.put([make(number, body=b"%d" % number) for number in range(7)])
        assert sorted(scan(backend, 3)) == [b"%d" % number for number in range(7)]
        assert len(scan(backend, 7)) == len(scan(backend, 8)) == 7

    @needs("jobs")
    def test_an_unknown_id_is_not_found(self, backend: FullBackend) -> None:
        assert backend.jobs.find("no-such-job") is None

    @needs("jobs")
    def test_a_waiting_message_is_found_with_all_that_was_put(self, backend: FullBackend) -> None:
        backend.put([make(1, body=b"\x00\xff", priority=8, delay=2.5)])
        record = known(backend)
        assert (record.id, record.queue, record.handler, record.name) == (id_of(1), QUEUE, "greet", "no 1")
        assert (record.state, record.priority, record.body) == ("delayed", 8, b"\x00\xff")
        assert (record.attempts, record.crashes, record.fence, record.owner) == (0, 0, 0, None)
        assert record.due_at - record.enqueued_at == 2_500_000
        assert (record.finished_at, record.lease_until, record.failures) == (None, None, ())

    @needs("jobs")
    def test_a_leased_message_is_found_with_its_holder(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 1)
        (lease,) = take(backend)
        record = known(backend)
        assert (record.state, record.owner, record.fence, record.attempts) == ("leased", lease.owner, 2, 1)

    @needs("jobs")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired"])
    def test_trimming_deletes_only_what_ended_before(
        self, backend: FullBackend, clock: AdvancingClock, state: Terminal
    ) -> None:
        end(backend, 1, state=state)
        clock.advance(0.5)
        limit = end(backend, 2, state=state)
        assert backend.jobs.trim(state, limit, 10) == 1
        assert backend.jobs.find(id_of(1)) is None
        assert known(backend, 2).state == state

    @needs("jobs", "dead_letters")
    def test_dead_letters_are_trimmed_by_the_same_rule(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.abandon([Abandon(lease=put_and_take(backend, make(1))[0], reason="failed")])
        clock.advance(0.5)
        backend.abandon([Abandon(lease=put_and_take(backend, make(2))[0], reason="failed")])
        assert backend.dead_letters.trim(known(backend, 2).finished_at or 0, 10) == 1
        assert [record.id for record in backend.dead_letters.page()] == [id_of(2)]

    @needs("jobs")
    def test_trimming_deletes_at_most_its_limit_whatever_the_queue(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        end(backend, 1, 2)
        limit = end(backend, 3, 4, queue=OTHER) + 1
        assert [
            backend.jobs.trim("done", limit, 3),
            backend.jobs.trim("done", limit, 3),
            backend.jobs.trim("done", limit, 3),
        ] == [
            3,
            1,
            0,
        ]

    @needs("jobs")
    def test_trimming_one_queue_leaves_the_others(self, backend: FullBackend) -> None:
        end(backend, 1)
        limit = end(backend, 2, queue=OTHER) + 1
        assert backend.jobs.trim("done", limit, 10, queue=OTHER) == 1
        assert (known(backend).state, backend.jobs.find(id_of(2))) == ("done", None)

    @needs("jobs", "dead_letters")
    def test_trimming_dead_letters_of_one_queue_leaves_the_others(self, backend: FullBackend) -> None:
        backend.put([make(1), make(2, queue=OTHER)])
        backend.abandon([Abandon(lease=lease, reason="failed") for lease in take(backend, 2, QUEUE, OTHER)])
        assert backend.dead_letters.trim((known(backend, 2).finished_at or 0) + 1, 10, queue=OTHER) == 1
        assert [record.id for record in backend.dead_letters.page()] == [id_of(1)]

    @needs("jobs")
    def test_trimming_one_state_leaves_the_others_and_the_living(self, backend: FullBackend) -> None:
        limit = end(backend, 1, state="cancelled") + 1
        backend.put([make(2), make(3, delay=60)])
        assert backend.jobs.trim("done", limit, 10) == 0
        assert [known(backend, number).state for number in (1, 2, 3)] == ["cancelled", "ready", "delayed"]

    @needs("jobs")
    def test_a_trimmed_id_is_forgotten_and_may_be_put_again(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 1)
        backend.ack([Ack(lease=take(backend)[0])])
        backend.jobs.trim("done", (known(backend).finished_at or 0) + 1, 10)
        assert backend.put(make_many(range(1, 2))) == [id_of(1)]
        assert known(backend).failures == ()
