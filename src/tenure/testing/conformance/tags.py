"""Tags: every job with a tag is listed under it, whatever happened to the job, as long as the backend knows the job."""

import pytest

from tenure.backends.messages import Abandon, Ack, Message, Nack
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.events import JOB_STATES
from tenure.testing.conformance.capabilities import ADDED_LETTERS, needs
from tenure.testing.conformance.messages import (
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    failure,
    id_of,
    known,
    make,
    make_suspects,
    put_and_take,
    take_all,
)

TAGS = ("billing", "customer-17")
STRANGE = ("Ω", "50% off", "a_b", "it's", '"quoted"', "back\\slash", "{brace}", "*?[]", "x" * 64)


def tagged(number: int, *tags: str, **fields: object) -> Message:
    return make(number, tags=tags or TAGS, **fields)


def walk(backend: FullBackend, tag: str, limit: int = 2) -> list[JobRecord]:
    found, cursor = backend.jobs.tagged(tag, limit=limit)
    while cursor is not None:
        page, cursor = backend.jobs.tagged(tag, limit=limit, cursor=cursor)
        found += page
    return found


def shown(backend: FullBackend, tag: str, limit: int = 2) -> list[int]:
    return [int(record.id.rpartition("-")[2]) for record in walk(backend, tag, limit)]


class TagTests:
    @needs("jobs")
    def test_a_job_is_known_with_its_tags(self, backend: FullBackend) -> None:
        backend.put([tagged(1), make(2), tagged(3, "billing", delay=60)])
        assert [known(backend, number).tags for number in (1, 2, 3)] == [TAGS, (), ("billing",)]
        assert [record.tags for record in backend.jobs.page("ready", QUEUE, limit=9)[0]] == [TAGS, ()]

    @needs("jobs")
    def test_a_tag_of_no_job_lists_nothing(self, backend: FullBackend) -> None:
        backend.put([tagged(1), make(2)])
        assert [backend.jobs.tagged(tag, limit=9) for tag in ("other", "bill", "billing,customer-17", "")] == [
            ([], None)
        ] * 4

    @needs("jobs")
    def test_one_job_alone_is_listed_under_each_of_its_tags(self, backend: FullBackend) -> None:
        backend.put([tagged(1)])
        assert [shown(backend, tag) for tag in TAGS] == [[1], [1]]

    @needs("jobs")
    def test_strange_tags_list_their_jobs_only(self, backend: FullBackend) -> None:
        backend.put([tagged(number, tag) for number, tag in enumerate(STRANGE)])
        assert [shown(backend, tag) for tag in STRANGE] == [[number] for number in range(len(STRANGE))]
        backend.put([tagged(100, *STRANGE)])
        assert known(backend, 100).tags == STRANGE

    @needs("jobs")
    def test_the_newest_job_is_listed_first_a_page_at_a_time(self, backend: FullBackend, clock: AdvancingClock) -> None:
        for number in range(1, 6):
            backend.put(
                [tagged(number, "billing", queue=(QUEUE, OTHER)[number % 2], priority=number), make(10 + number)]
            )
            clock.advance(0.1)
        assert [shown(backend, "billing", limit) for limit in (1, 2, 5, 9)] == [[5, 4, 3, 2, 1]] * 4

    @needs("jobs")
    def test_the_jobs_of_one_put_are_each_listed_once(self, backend: FullBackend) -> None:
        backend.put([tagged(number, "even" if number % 2 == 0 else "odd", "all") for number in range(30)])
        assert sorted(shown(backend, "all", 7)) == list(range(30))
        assert sorted(shown(backend, "even", 7)) == list(range(0, 30, 2))

    @needs("jobs")
    def test_pages_go_on_where_they_were_while_jobs_are_put(self, backend: FullBackend, clock: AdvancingClock) -> None:
        for number in range(1, 5):
            backend.put([tagged(number)])
            clock.advance(0.1)
        first, cursor = backend.jobs.tagged("billing", limit=2)
        backend.put([tagged(5)])
        rest, _ = backend.jobs.tagged("billing", limit=9, cursor=cursor)
        assert [record.id for record in (*first, *rest)] == [id_of(number) for number in (4, 3, 2, 1)]

    @needs("jobs", "dead_letters")
    def test_jobs_of_every_state_are_listed(self, backend: FullBackend, clock: AdvancingClock) -> None:
        states = ("parked", "done", "dead", "cancelled", "expired", "leased", "delayed", "ready")
        assert set(states) == set(JOB_STATES)
        make_suspects(backend, clock, tagged(0))
        for number in range(1, 6):
            (lease,) = put_and_take(backend, tagged(number, body=b"large"))
            if states[number] == "dead":
                backend.abandon([Abandon(lease=lease, reason="failed", failure=failure(1), charge="attempt")])
            elif states[number] != "leased":
                backend.ack([Ack(lease=lease, state=states[number], reason="over")])  # type: ignore[arg-type]
            clock.advance(0.05)
        backend.put([tagged(6, delay=60)])
        clock.advance(0.05)
        backend.put([tagged(7, priority=8)])
        found = {record.state: record for record in walk(backend, "billing")}
        assert tuple(reversed(list(found))) == states
        for number, state in enumerate(states):
            record = found[state]
            assert (record.id, record.queue, record.handler, record.name) == (
                id_of(number),
                QUEUE,
                "greet",
                f"no {number}",
            )
            assert (record.tags, record.body) == (TAGS, None)
            assert record.finished_at == known(backend, number).finished_at
            assert record.enqueued_at == known(backend, number).enqueued_at
            assert record.due_at == known(backend, number).due_at
        assert (found["ready"].priority, found["ready"].fence, found["leased"].fence) == (8, 0, 1)
        assert (found["leased"].owner, found["done"].reason) == (known(backend, 5).owner, "over")
        assert (found["dead"].attempts, found["dead"].failures[0].message) == (1, "no 1")

    @needs("jobs")
    def test_a_job_that_came_back_is_listed_with_what_was_counted(self, backend: FullBackend) -> None:
        put_and_take(backend, tagged(1), make(2))
        (lease,) = put_and_take(backend, tagged(3))
        backend.nack([Nack(lease=lease, charge="attempt", failure=failure(1))])
        back, leased = walk(backend, "billing")
        assert (back.id, back.state, back.attempts, back.fence, len(back.failures)) == (id_of(3), "ready", 1, 1, 1)
        assert (leased.id, leased.state, leased.fence) == (id_of(1), "leased", 1)

    @needs("jobs")
    def test_jobs_that_are_leased_together_are_listed(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *(tagged(number) for number in range(8)), make(8))
        backend.ack([Ack(lease=lease) for lease in leases[:3]])
        states = {record.id: record.state for record in walk(backend, "billing", 3)}
        assert states == {id_of(number): "done" if number < 3 else "leased" for number in range(8)}

    @needs("jobs")
    def test_a_known_id_keeps_its_tags(self, backend: FullBackend) -> None:
        backend.put([tagged(1, "first"), tagged(1, "first", "twice")])
        backend.put([tagged(1, "second")])
        backend.put([tagged(1, "third"), tagged(2, "third")])
        assert known(backend).tags == ("first",)
        assert [shown(backend, tag) for tag in ("first", "twice", "second", "third")] == [[1], [], [], [2]]

    @needs("jobs", "unique")
    def test_a_job_that_was_refused_has_no_tags(self, backend: FullBackend) -> None:
        backend.put([tagged(1, "first", unique="one")])
        backend.put([tagged(2, "second", unique="one"), tagged(3, "third", unique="other")])
        assert [shown(backend, tag) for tag in ("first", "second", "third")] == [[1], [], [3]]

    @needs("jobs", "dead_letters")
    def test_a_replayed_job_keeps_its_tags_and_its_place(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.abandon([Abandon(lease=put_and_take(backend, tagged(1))[0], reason="failed")])
        clock.advance(0.1)
        backend.put([tagged(2)])
        assert [letter.tags for letter in backend.dead_letters.page()] == [TAGS]
        assert backend.dead_letters.replay([id_of(1)]) == [id_of(1)]
        assert [(record.id, record.state) for record in walk(backend, "billing", 1)] == [
            (id_of(2), "ready"),
            (id_of(1), "ready"),
        ]
        assert known(backend).tags == TAGS

    @needs("jobs", "dead_letters")
    def test_deleted_jobs_are_listed_no_more(self, backend: FullBackend) -> None:
        for number in (1, 2):
            backend.abandon([Abandon(lease=put_and_take(backend, tagged(number))[0], reason="failed")])
        for number in (3, 4):
            backend.ack([Ack(lease=put_and_take(backend, tagged(number))[0])])
        assert backend.dead_letters.discard([id_of(1)]) == [id_of(1)]
        assert sorted(shown(backend, "billing")) == [2, 3, 4]
        assert backend.dead_letters.trim((known(backend, 2).finished_at or 0) + 1, 9) == 1
        assert sorted(shown(backend, "billing")) == [3, 4]
        assert backend.jobs.trim("done", (known(backend, 4).finished_at or 0) + 1, 9) == 2
        assert shown(backend, "billing") == []
        backend.put([tagged(1, "again")])
        assert [shown(backend, tag) for tag in ("billing", "again")] == [[], [1]]

    @needs("jobs")
    def test_a_job_that_was_deleted_and_comes_again_without_tags_is_not_listed(self, backend: FullBackend) -> None:
        backend.ack([Ack(lease=lease) for lease in put_and_take(backend, tagged(1))])
        assert backend.jobs.delete([id_of(1)]) == [id_of(1)]
        backend.put([make(1)])
        assert shown(backend, TAGS[0]) == []

    @needs("jobs", "dead_letters", ADDED_LETTERS)
    @pytest.mark.parametrize("number", [1, 3])
    def test_added_dead_letters_have_tags(self, backend: FullBackend, number: int) -> None:
        letters = [NewDeadLetter(message=tagged(each), reason="failed") for each in range(number)]
        backend.dead_letters.add(letters)
        backend.dead_letters.add(letters)
        assert sorted(shown(backend, "billing")) == list(range(number))
        assert [letter.tags for letter in backend.dead_letters.page()] == [TAGS] * number

    @needs("jobs", "control")
    def test_a_cancelled_job_keeps_its_tags(self, backend: FullBackend) -> None:
        backend.put([tagged(1), tagged(2, delay=60)])
        backend.control.cancel([id_of(1), id_of(2)])
        assert [(record.state, record.tags) for record in walk(backend, "billing")] == [("cancelled", TAGS)] * 2

    @needs("dead_letters")
    def test_a_job_with_tags_runs_and_dies_as_any_other(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, tagged(1, body=b'{"tags":["billing"]}'))
        backend.abandon([Abandon(lease=lease, reason="failed")])
        assert [letter.tags for letter in backend.dead_letters.page()] in ([TAGS], [("billing",)])
        backend.dead_letters.replay([id_of(1)])
        assert [lease.id for lease in take_all(backend, 1)] == [id_of(1)]
