"""Queue age: the age of a queue is that of the job that has waited longest, in any priority."""

from tenure.backends.messages import Nack
from tenure.testing.conformance.capabilities import needs
from tenure.testing.conformance.messages import OTHER, QUEUE, AdvancingClock, FullBackend, make, put_and_take, take


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
