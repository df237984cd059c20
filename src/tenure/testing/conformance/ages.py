"""What ages promise: they are those of the job that has waited longest, whatever its priority."""

from tenure.backends.contract import Nack
from tenure.testing.conformance.capabilities import needs
from tenure.testing.conformance.messages import OTHER, QUEUE, AdvancingClock, AgedBackend, make, put_and_take, take


class Aging:
    @needs("Aged")
    def test_an_empty_queue_has_no_age(self, backend: AgedBackend) -> None:
        put_and_take(backend, make(1))
        assert backend.oldest([QUEUE, OTHER]) == {}

    @needs("Aged")
    def test_the_oldest_job_tells_the_age_of_its_queue(self, backend: AgedBackend, clock: AdvancingClock) -> None:
        backend.put([make(1)])
        clock.advance(2)
        backend.put([make(2), make(3, queue=OTHER), make(4, delay=3600)])
        ages = backend.oldest([QUEUE, OTHER, "third"])
        assert ages.keys() == {QUEUE, OTHER}
        assert ages[QUEUE] >= ages[OTHER] + 1.9

    @needs("Aged")
    def test_a_job_that_starves_behind_higher_priorities_is_the_oldest(
        self, backend: AgedBackend, clock: AdvancingClock
    ) -> None:
        backend.put([make(1, priority=0)])
        clock.advance(2)
        backend.put([make(number, priority=9) for number in range(2, 12)])
        assert backend.oldest([QUEUE])[QUEUE] >= 1.9

    @needs("Aged")
    def test_a_delayed_job_counts_from_when_it_is_due(self, backend: AgedBackend, clock: AdvancingClock) -> None:
        backend.put([make(1, delay=1)])
        assert backend.oldest([QUEUE]) == {}
        clock.advance(1.5)
        backend.put([make(2)])
        assert backend.oldest([QUEUE])[QUEUE] >= 0.4

    @needs("Aged")
    def test_a_job_that_came_back_does_not_age_its_queue(self, backend: AgedBackend, clock: AdvancingClock) -> None:
        backend.put([make(1)])
        clock.advance(2)
        backend.nack([Nack(lease=take(backend)[0])])
        alone = backend.oldest([QUEUE])[QUEUE]
        backend.put([make(2)])
        assert alone >= 1.9
        assert backend.oldest([QUEUE])[QUEUE] <= alone - 1.9
