"""History: the run of each attempt is stored, and the counts of workers are added up, never twice."""

from tenure.backends.messages import Abandon, Ack, Nack
from tenure.backends.records import WorkerRecord
from tenure.events import Run, Settlement, Status
from tenure.metrics.statistics import Counts, Tally
from tenure.testing.conformance.capabilities import needs
from tenure.testing.conformance.messages import (
    QUEUE,
    AdvancingClock,
    FullBackend,
    failure,
    known,
    make,
    put_and_take,
    take,
)

RUN = Run("greet", 1_700_000_000_000_000, 1.5, 0.25, 0.75, 10_000_000, "host:1:ab", True)
SECOND = Run("greet", 1_700_000_009_000_000, 2.5)


def counted(done: int, seconds: float) -> Counts:
    counts = Counts()
    for _ in range(done):
        counts.add(Settlement("1", QUEUE, Status.ACKED, 1, None, False, Run("greet", 0, seconds, 0.1, 0.2)))
    return counts


def tally(slot: int, worker: str, done: int = 1, **where: str) -> Tally:
    return Tally(slot, where.get("queue", QUEUE), where.get("handler", "greet"), worker, counted(done, 1.0))


def worker(number: int) -> WorkerRecord:
    return WorkerRecord(
        id=f"host:{number}",
        host="host",
        pid=number,
        queues=(QUEUE,),
        runner="process",
        concurrency=1,
        started_at=number,
        seen_at=number,
    )


def sums(backend: FullBackend, since: int = 0, until: int = 100) -> dict[int, int]:
    """How many jobs were done in each slot."""
    found: dict[int, int] = {}
    for each in backend.stats.read(since, until):
        found[each.slot] = found.get(each.slot, 0) + each.counts.statuses["acked"]
    return found


class HistoryTests:
    @needs("jobs")
    def test_what_the_last_attempt_took_is_kept(self, backend: FullBackend) -> None:
        backend.ack([Ack(lease=put_and_take(backend, make(1))[0], seconds=1.5, output="[1]", run=RUN)])
        record = known(backend)
        assert (record.run, record.seconds, record.output) == (RUN, 1.5, "[1]")

    @needs("jobs")
    def test_a_job_that_ended_without_a_run_has_none(self, backend: FullBackend) -> None:
        backend.ack([Ack(lease=put_and_take(backend, make(1))[0], state="expired")])
        assert known(backend).run is None

    @needs("jobs")
    def test_what_each_failed_attempt_took_is_kept_with_its_failure(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=lease, charge="attempt", failure=failure(1, run=RUN), run=RUN)])
        backend.abandon([Abandon(lease=take(backend)[0], reason="failed", failure=failure(2, run=SECOND), run=SECOND)])
        assert [each.run for each in known(backend).failures] == [RUN, SECOND]

    @needs("workers")
    def test_workers_that_died_are_deleted_and_counted(self, backend: FullBackend, clock: AdvancingClock) -> None:
        for number in range(4):
            backend.workers.announce(worker(number), 1.0 if number < 3 else 60.0)
        assert backend.workers.drop_dead(9) == 0
        clock.advance(1.1)
        assert [each.id for each in backend.workers.alive()] == ["host:3"]
        assert [backend.workers.drop_dead(2) for _ in range(3)] == [2, 1, 0]
        assert [each.id for each in backend.workers.alive()] == ["host:3"]
        backend.workers.announce(worker(0), 60.0)
        assert [each.id for each in backend.workers.alive()] == ["host:0", "host:3"]

    @needs("stats")
    def test_tallies_are_found_by_the_time_of_their_slot(self, backend: FullBackend) -> None:
        backend.stats.save([tally(slot, "a", done=slot) for slot in (1, 2, 3, 4)])
        assert sums(backend, 2, 4) == {2: 2, 3: 3}
        assert backend.stats.read(1, 2) == [tally(1, "a")]

    @needs("stats")
    def test_a_worker_that_notes_again_replaces_what_it_noted(self, backend: FullBackend) -> None:
        backend.stats.save([tally(1, "a", done=2), tally(1, "b", done=1)])
        backend.stats.save([tally(1, "a", done=5)])
        assert sums(backend) == {1: 6}

    @needs("stats")
    def test_folding_adds_up_what_workers_counted_and_loses_nothing(self, backend: FullBackend) -> None:
        backend.stats.save([tally(1, "a", done=2), tally(1, "b", done=3), tally(1, "b", queue="other"), tally(9, "a")])
        before = sums(backend)
        assert backend.stats.fold(9, 100) == 3
        assert sums(backend) == before == {1: 6, 9: 1}
        folded = {each.queue: each for each in backend.stats.read(0, 9)}
        assert {each.worker for each in folded.values()} == {""}
        assert (folded[QUEUE].counts.runs.count(), folded[QUEUE].counts.runs.total) == (5, 5.0)

    @needs("stats")
    def test_what_comes_late_is_added_to_what_was_folded(self, backend: FullBackend) -> None:
        backend.stats.save([tally(1, "a", done=2)])
        backend.stats.fold(9, 100)
        backend.stats.save([tally(1, "b", done=3)])
        assert (backend.stats.fold(9, 100), backend.stats.fold(9, 100)) == (1, 0)
        assert sums(backend) == {1: 5}
        assert len(backend.stats.read(0, 9)) == 1

    @needs("stats")
    def test_folding_and_dropping_go_in_chunks(self, backend: FullBackend) -> None:
        backend.stats.save([tally(slot, "a") for slot in range(5)])
        assert [backend.stats.fold(9, 3), backend.stats.fold(9, 3), backend.stats.fold(9, 3)] == [3, 2, 0]
        assert [backend.stats.drop(4, 3), backend.stats.drop(4, 3), backend.stats.drop(4, 3)] == [3, 1, 0]
        assert sums(backend) == {4: 1}
