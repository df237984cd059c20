"""Cancellation and progress: a cancelled job that waits never runs; a running one is asked, and no request is lost."""

import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from tenure.backends.messages import ON_REQUEST, Abandon, Ack, Charge, Nack, Terminal
from tenure.definition.context import Progress
from tenure.testing.conformance.capabilities import SHARED, needs
from tenure.testing.conformance.concurrency import WAIT_TIMEOUT, start
from tenure.testing.conformance.messages import (
    LEASE,
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    fail_times,
    failure,
    id_of,
    kept_body,
    known,
    make,
    make_many,
    make_suspects,
    numbers,
    put_and_take,
    take,
    take_suspect,
)

ONE = id_of(1)


class CancellationTests:
    @needs("control")
    @pytest.mark.parametrize("delay", [0.0, 1.0], ids=["ready", "delayed"])
    def test_a_cancelled_job_that_waited_never_runs(
        self, backend: FullBackend, clock: AdvancingClock, delay: float
    ) -> None:
        backend.put([make(1, delay=delay), make(2, delay=delay)])
        assert backend.control.cancel([ONE]) == {ONE: "cancelled"}
        clock.advance(1.1)
        assert drain(backend, 10) == [2]

    @needs("control", "jobs")
    @pytest.mark.parametrize("delay", [0.0, 60.0], ids=["ready", "delayed"])
    def test_a_cancelled_job_is_remembered(self, backend: FullBackend, delay: float) -> None:
        backend.put([make(1, delay=delay, priority=7)])
        backend.control.cancel([ONE])
        record = known(backend)
        assert (record.state, record.reason, record.body) == ("cancelled", ON_REQUEST, kept_body(backend))
        assert (record.queue, record.handler, record.name, record.priority) == (QUEUE, "greet", "no 1", 7)
        assert (record.owner, record.seconds, record.fence) == (None, None, 0)
        assert record.finished_at is not None
        assert {state: count for state, count in backend.queues.counts()[QUEUE].items() if count} == {"cancelled": 1}

    @needs("control", "jobs")
    def test_a_cancelled_job_keeps_its_counts_and_failures(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 2)
        backend.control.cancel([ONE])
        record = known(backend)
        assert (record.attempts, record.fence, record.failures) == (2, 2, (failure(0), failure(1)))

    @needs("control")
    def test_an_id_that_was_cancelled_is_known(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        backend.control.cancel([ONE])
        assert backend.put([make(1)]) == []

    @needs("control", "jobs")
    def test_a_cancelled_job_is_trimmed_as_others_are(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        backend.control.cancel([ONE])
        assert backend.jobs.trim("cancelled", (known(backend).finished_at or 0) + 1, 10) == 1
        assert backend.control.cancel([ONE]) == {ONE: "unknown"}
        assert backend.put([make(1)]) == [ONE]
        assert drain(backend, 10) == [1]

    @needs("control", "jobs")
    def test_a_leased_job_is_asked_and_only_its_holder_hears_it(self, backend: FullBackend) -> None:
        first, second = put_and_take(backend, make(1), make(2))
        assert backend.control.cancel_requested([first, second]) == []
        assert backend.control.cancel([ONE]) == {ONE: "asked"}
        assert backend.control.cancel([ONE]) == {ONE: "asked"}
        assert backend.control.cancel_requested([first, second]) == [first]
        assert backend.control.cancel_requested([second]) == []
        assert [(known(backend, n).state, known(backend, n).cancel_asked) for n in (1, 2)] == [
            ("leased", True),
            ("leased", False),
        ]

    @needs("control")
    def test_the_request_is_not_for_another_owner_or_fence(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.control.cancel([ONE])
        strangers = [msgspec.structs.replace(lease, owner="another owner"), msgspec.structs.replace(lease, fence=2)]
        assert backend.control.cancel_requested(strangers) == []

    @needs("control", "jobs")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired"])
    def test_an_asked_job_that_is_acked_ends_as_its_holder_says(self, backend: FullBackend, state: Terminal) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.control.cancel([ONE])
        assert backend.ack([Ack(lease=lease, state=state, output="ok", reason="so")]) == []
        assert (known(backend).state, known(backend).output, known(backend).reason) == (state, "ok", "so")
        assert backend.control.cancel_requested([lease]) == []

    @needs("control", "jobs")
    @pytest.mark.parametrize("delay", [0.0, 1.0])
    @pytest.mark.parametrize("charge", [None, "attempt", "crash", "vanished", "suspect"])
    def test_an_asked_job_that_is_nacked_ends_cancelled(
        self, backend: FullBackend, clock: AdvancingClock, charge: Charge | None, delay: float
    ) -> None:
        (lease, _) = put_and_take(backend, make(1), make(2))
        backend.control.cancel([ONE])
        assert backend.nack([Nack(lease=lease, delay=delay, charge=charge, failure=failure(1))]) == []
        clock.advance(delay + 0.1)
        assert take(backend) == []
        record = known(backend)
        assert (record.state, record.reason, record.cancel_asked) == ("cancelled", ON_REQUEST, False)
        assert (record.attempts, record.crashes) == (int(charge == "attempt"), int(charge == "crash"))
        assert (record.fence, record.failures) == (1, (failure(1),))

    @needs("control", "jobs")
    def test_a_batch_of_nacks_ends_only_what_was_asked(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(4)))
        backend.control.cancel([id_of(1), id_of(3)])
        assert backend.nack([Nack(lease=lease) for lease in leases]) == []
        assert drain(backend, 10) == [0, 2]

    @needs("control", "jobs")
    def test_an_asked_job_whose_holder_vanished_ends_cancelled(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        (lease, _) = put_and_take(backend, make(1), make(2))
        backend.control.cancel([ONE])
        clock.advance(1.1)
        assert sorted(each.id for each in backend.reap([QUEUE])) == [ONE, id_of(2)]
        assert (known(backend).state, known(backend).reason) == ("cancelled", ON_REQUEST)
        assert drain(backend, 10) == [2]
        assert backend.ack([Ack(lease=lease)]) == [lease]
        assert known(backend).state == "cancelled"

    @needs("control", "jobs")
    def test_an_asked_suspect_that_expires_is_charged_and_ends_cancelled(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        make_suspects(backend, clock, make(1))
        take_suspect(backend)
        backend.control.cancel([ONE])
        clock.advance(1.1)
        assert [(each.id, each.crashed) for each in backend.reap([QUEUE])] == [(ONE, True)]
        assert (known(backend).state, known(backend).crashes) == ("cancelled", 1)

    @needs("control", "jobs")
    def test_a_suspect_that_waits_is_cancelled(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, make(1))
        assert backend.control.cancel([ONE]) == {ONE: "cancelled"}
        assert known(backend).state == "cancelled"
        assert backend.lease_suspect([QUEUE], seconds=LEASE) == []

    @needs("control", "jobs")
    def test_a_stale_holder_does_not_end_what_was_asked(self, backend: FullBackend) -> None:
        (stale,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=stale)])
        (present,) = take(backend)
        backend.control.cancel([ONE])
        assert backend.nack([Nack(lease=stale)]) == [stale]
        assert backend.control.cancel_requested([stale, present]) == [present]
        assert backend.ack([Ack(lease=present)]) == []
        assert known(backend).state == "done"

    @needs("control", "dead_letters")
    def test_an_asked_job_that_is_abandoned_is_dead_and_its_replay_is_asked_no_more(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.control.cancel([ONE])
        backend.abandon([Abandon(lease=lease, reason="failed")])
        assert [record.id for record in backend.dead_letters.page()] == [ONE]
        backend.dead_letters.replay([ONE])
        (again,) = take(backend)
        assert backend.control.cancel_requested([again]) == []
        backend.nack([Nack(lease=again)])
        assert numbers(take(backend)) == [1]

    @needs("control", "dead_letters")
    def test_cancelling_tells_what_becomes_of_each(self, backend: FullBackend) -> None:
        done, dead, _ = put_and_take(backend, make(1), make(2), make(3))
        backend.ack([Ack(lease=done)])
        backend.abandon([Abandon(lease=dead, reason="failed")])
        backend.put([make(4), make(5, delay=60), make(6, queue=OTHER)])
        assert backend.control.cancel([id_of(number) for number in (1, 2, 3, 4, 4, 5, 6, 9)]) == {
            id_of(1): "too_late",
            id_of(2): "too_late",
            id_of(3): "asked",
            id_of(4): "cancelled",
            id_of(5): "cancelled",
            id_of(6): "cancelled",
            id_of(9): "unknown",
        }
        assert backend.control.cancel([id_of(4)]) == {id_of(4): "too_late"}
        assert backend.control.cancel([]) == {}
        assert [record.id for record in backend.dead_letters.page()] == [id_of(2)]

    @needs("control")
    def test_a_job_raced_for_is_either_cancelled_or_leased(self, backend: FullBackend) -> None:
        everything = list(range(400))
        backend.put(make_many(range(400)))
        go = threading.Barrier(3)

        def cancel() -> dict[str, str]:
            go.wait(WAIT_TIMEOUT)
            chunks = [everything[first : first + 9][::-1] for first in range(0, 400, 9)][::-1]
            return {
                id: result
                for chunk in chunks
                for id, result in backend.control.cancel([id_of(n) for n in chunk]).items()
            }

        def work() -> list[int]:
            go.wait(WAIT_TIMEOUT)
            return drain(backend, 5)

        with ThreadPoolExecutor(3) as threads:
            runs, cancelling = [threads.submit(work) for _ in range(2)], threads.submit(cancel)
            ran = [number for run in runs for number in run.result(WAIT_TIMEOUT)]
            results = cancelling.result(WAIT_TIMEOUT)
        cancelled = [number for number in everything if results[id_of(number)] == "cancelled"]
        assert sorted(ran + cancelled) == everything

    @needs("control", SHARED)
    def test_a_request_of_another_process_reaches_the_holder(self, backend: FullBackend, url: str) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.put([make(2)])
        with start("cancel", url, ONE, id_of(2)) as other:
            other.wait(WAIT_TIMEOUT)
        assert backend.control.cancel_requested([lease]) == [lease]
        assert take(backend) == []

    @needs("control", "jobs")
    def test_progress_is_shown_while_the_lease_is_held(self, backend: FullBackend) -> None:
        first, second, _ = put_and_take(backend, make(1), make(2), make(3))
        backend.control.save_progress([(first, Progress(40, 100)), (second, Progress(2.5))])
        backend.control.save_progress([(first, Progress(41, 100))])
        assert [known(backend, number).progress for number in (1, 2, 3)] == [Progress(41, 100), Progress(2.5), None]
        backend.nack([Nack(lease=first)])
        backend.ack([Ack(lease=second)])
        assert [known(backend, number).progress for number in (1, 2)] == [None, None]
        take(backend)
        assert known(backend).progress is None

    @needs("control", "jobs")
    def test_a_stale_holder_notes_no_progress(self, backend: FullBackend) -> None:
        (stale,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=stale)])
        (present,) = take(backend)
        stranger = msgspec.structs.replace(present, owner="another owner")
        backend.control.save_progress([(stale, Progress(1, 2)), (stranger, Progress(1, 2))])
        assert known(backend).progress is None
