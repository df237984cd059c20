"""ArchiveConformance: the tests that every archive of jobs must pass."""

from typing import Any

from tenure.backends.parts import JobArchive
from tenure.backends.records import JobRecord
from tenure.events import Run
from tenure.testing.conformance.messages import QUEUE, failure, id_of

RUN = Run("greet", 1_700_000_000_000_000, 1.5, 0.25, 0.75, 10_000_000, "host:1:ab", True)
START = 1_700_000_000_000_000


def job(number: int, state: str = "done", **fields: Any) -> JobRecord:
    """A job that ended `number` seconds after START, unless `fields` say otherwise."""
    usual: dict[str, Any] = {
        "id": id_of(number),
        "queue": QUEUE,
        "handler": "greet",
        "name": "Grüße",
        "state": state,
        "priority": 5,
        "attempts": 0,
        "crashes": 0,
        "fence": 1,
        "enqueued_at": START - 1,
        "due_at": START,
        "finished_at": START + number * 1_000_000,
    }
    return JobRecord(**{**usual, **fields})


def ids(records: list[JobRecord]) -> list[str]:
    return [record.id for record in records]


class ArchiveConformance:
    """Subclass it, and give it the fixture `archive`."""

    def test_a_job_is_found_as_it_was_noted(self, archive: JobArchive) -> None:
        ended = job(1, seconds=1.5, output='["Ω", null]', reason="why", owner="me", run=RUN, failures=(failure(1),))
        archive.save([ended, job(2, "dead", finished_at=None)])
        assert archive.find(id_of(1)) == ended
        assert archive.find(id_of(2)) == job(2, "dead", finished_at=None)
        assert archive.find(id_of(3)) is None

    def test_nothing_is_noted_of_no_jobs(self, archive: JobArchive) -> None:
        archive.save([])
        assert archive.queues_with("done") == []

    def test_a_later_lease_has_the_last_word_and_failures_add_up(self, archive: JobArchive) -> None:
        archive.save([job(1, "delayed", finished_at=None, failures=(failure(1),))])
        archive.save([job(1, "dead", fence=2, failures=(failure(2),))])
        archive.save([job(1, "done", fence=1)])  # a holder that came too late
        found = archive.find(id_of(1))
        assert found == job(1, "dead", fence=2, failures=(failure(1), failure(2)))
        assert [archive.queues_with(state) for state in ("delayed", "dead", "done")] == [[], [QUEUE], []]

    def test_what_is_noted_twice_is_kept_once(self, archive: JobArchive) -> None:
        again = job(1, "dead", failures=(failure(1),))
        archive.save([again, again])
        archive.save([again])
        assert archive.find(id_of(1)) == again
        assert archive.page("dead", QUEUE, limit=9)[0] == [again]

    def test_pages_go_from_the_newest_to_the_oldest(self, archive: JobArchive) -> None:
        noted = [job(number) for number in range(1, 4)] + [job(number, finished_at=START) for number in range(4, 8)]
        archive.save([*noted, job(8, queue="other"), job(9, "dead")])
        shown = everything(archive, "done", QUEUE, limit=2)
        assert ids(shown) == [id_of(number) for number in (3, 2, 1, 7, 6, 5, 4)]
        assert ids(archive.page("done", "other", limit=9)[0]) == [id_of(8)]
        assert sorted(archive.queues_with("done")) == sorted([QUEUE, "other"])

    def test_pages_may_begin_before_a_time(self, archive: JobArchive) -> None:
        archive.save([job(number) for number in range(1, 6)])
        third = archive.find(id_of(3))
        assert third is not None
        found, cursor = archive.page("done", QUEUE, limit=1, before=third.finished_at)
        rest, _ = archive.page("done", QUEUE, limit=9, cursor=cursor, before=third.finished_at)
        assert ids([*found, *rest]) == [id_of(2), id_of(1)]

    def test_a_page_goes_on_where_its_last_job_was_though_that_is_gone(self, archive: JobArchive) -> None:
        archive.save([job(number) for number in range(1, 6)])
        first, cursor = archive.page("done", QUEUE, limit=2)
        archive.save([job(4, "dead", fence=2), job(6)])
        rest, _ = archive.page("done", QUEUE, limit=9, cursor=cursor)
        assert ids(first) + ids(rest) == [id_of(number) for number in (5, 4, 3, 2, 1)]

    def test_old_ones_are_forgotten_in_chunks(self, archive: JobArchive) -> None:
        archive.save([*(job(number) for number in range(1, 6)), job(7, "dead"), job(8, queue="other")])
        before = START + 5 * 1_000_000
        assert archive.trim("done", before, 9, queue="other") == 0
        assert [archive.trim("done", before, 3) for _ in range(3)] == [3, 1, 0]
        assert [archive.find(id_of(number)) is None for number in (1, 4, 5, 7, 8)] == [
            True,
            True,
            False,
            False,
            False,
        ]

    def test_the_results_of_ended_jobs_can_be_erased(self, archive: JobArchive) -> None:
        archive.save([job(1, output="a result"), job(2, output="a result"), job(3, "dead", output="kept")])
        assert archive.forget([id_of(number) for number in (1, 3, 4)]) == [id_of(1)]
        found = [archive.find(id_of(number)) for number in (1, 2, 3)]
        assert [record.output for record in found if record] == [None, "a result", "kept"]

    def test_jobs_are_listed_by_tag_newest_enqueue_first(self, archive: JobArchive) -> None:
        noted = [job(number, enqueued_at=START + number, tags=("a", "b")[: 1 + number % 2]) for number in range(1, 6)]
        archive.save([*noted, job(6), job(7, queue="other", enqueued_at=START - 9, tags=("a",))])
        assert [ids(walk_tag(archive, "a", limit)) for limit in (1, 2, 6, 9)] == [
            [id_of(number) for number in (5, 4, 3, 2, 1, 7)]
        ] * 4
        assert walk_tag(archive, "b", 2) == [noted[4], noted[2], noted[0]]
        assert archive.tagged("c", limit=9) == ([], None)

    def test_a_job_is_listed_once_under_its_tags_however_often_it_is_noted(self, archive: JobArchive) -> None:
        waiting = job(1, "delayed", finished_at=None, tags=("a",))
        archive.save([waiting, waiting])
        archive.save([job(1, "done", fence=2, enqueued_at=START + 5, tags=("a",)), job(2, tags=("a",))])
        assert [(record.id, record.state) for record in walk_tag(archive, "a", 1)] == [
            (id_of(1), "done"),
            (id_of(2), "done"),
        ]

    def test_the_jobs_of_one_moment_are_each_listed_once_under_a_tag(self, archive: JobArchive) -> None:
        archive.save([job(number, tags=("a", "Ω")) for number in range(1, 8)])
        assert ids(walk_tag(archive, "Ω", 2)) == [id_of(number) for number in range(7, 0, -1)]

    def test_a_list_by_tag_goes_on_where_its_last_job_was_though_that_is_gone(self, archive: JobArchive) -> None:
        archive.save([job(number, tags=("a",)) for number in range(1, 6)])
        first, cursor = archive.tagged("a", limit=2)
        assert archive.trim("done", START + 5 * 1_000_000, 4) == 4
        rest, _ = archive.tagged("a", limit=9, cursor=cursor)
        assert (ids(first), ids(rest)) == ([id_of(5), id_of(4)], [])
        assert ids(walk_tag(archive, "a", 9)) == [id_of(5)]

    def test_jobs_are_found_by_the_start_of_their_id(self, archive: JobArchive) -> None:
        names = ("ab*1", "ab?2", "ab%3", "ab_4", "ab", "b")
        archive.save([job(number, id=name) for number, name in enumerate(names)])
        assert [ids(archive.with_prefix(prefix)) for prefix in ("ab*", "ab%", "ab_", "a*", "c")] == [
            *(["ab*1"], ["ab%3"], ["ab_4"], [], [])
        ]
        assert ids(archive.with_prefix("ab")) == ["ab"]
        assert ids(archive.with_prefix("a")) == sorted(names[:5])
        assert len(archive.with_prefix("a", 2)) == 2

    def test_records_of_ended_jobs_can_be_deleted(self, archive: JobArchive) -> None:
        archive.save([job(1), job(2), job(3, "dead"), job(4, "delayed"), job(5, "failed"), job(6, queue="other")])
        wanted = [id_of(number) for number in (1, 3, 4, 5, 6, 7)]
        assert sorted(archive.delete(wanted)) == [id_of(number) for number in (1, 3, 5, 6)]
        assert (archive.delete(wanted), archive.delete([])) == ([], [])
        assert [archive.find(id_of(number)) is None for number in range(1, 7)] == [True, False, True, False, True, True]
        assert (ids(everything(archive, "done", QUEUE, limit=9)), archive.queues_with("done")) == ([id_of(2)], [QUEUE])

    def test_a_record_that_was_deleted_and_comes_again_without_tags_is_not_listed(self, archive: JobArchive) -> None:
        archive.save([job(1, tags=("a",))])
        assert archive.delete([id_of(1)]) == [id_of(1)]
        archive.save([job(1)])
        assert walk_tag(archive, "a", 9) == []

    def test_many_are_noted_at_once(self, archive: JobArchive) -> None:
        archive.save([job(number) for number in range(1, 1002)])
        assert len(everything(archive, "done", QUEUE, limit=400)) == 1001


def walk_tag(archive: JobArchive, tag: str, limit: int) -> list[JobRecord]:
    found, cursor = archive.tagged(tag, limit=limit)
    while cursor is not None:
        page, cursor = archive.tagged(tag, limit=limit, cursor=cursor)
        found += page
    return found


def everything(archive: JobArchive, state: str, queue: str, limit: int) -> list[JobRecord]:
    found, cursor = archive.page(state, queue, limit=limit)
    while cursor is not None:
        page, cursor = archive.page(state, queue, limit=limit, cursor=cursor)
        found += page
    return found
