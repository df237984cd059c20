"""Outage: what a backend says about settlements that it could not confirm, after it was away."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import pytest

from tenure.backends.messages import Abandon, Ack, Lease
from tenure.errors import BackendError
from tenure.testing.conformance.messages import (
    AdvancingClock,
    FullBackend,
    drain_all,
    expire,
    failure,
    make,
    put_and_take,
)

Outage = Callable[[], AbstractContextManager[None]]


class OutageConformance:
    """For backends that can be away. A subclass adds the fixtures `backend`, `clock` and `outage`.

    `outage()` is a context in which the backend applies no call.
    """

    @pytest.fixture
    def lease(self, backend: FullBackend) -> Lease:
        """A lease of the only job."""
        (lease,) = put_and_take(backend, make(1))
        return lease

    def test_an_unconfirmed_ack_of_a_job_that_was_reaped_is_lost(
        self, backend: FullBackend, clock: AdvancingClock, outage: Outage, lease: Lease
    ) -> None:
        with outage(), suppress(BackendError):
            assert backend.ack([Ack(lease=lease)]) == [lease]
        expire(backend, clock)
        assert backend.ack([Ack(lease=lease)]) == [lease]
        assert drain_all(backend, clock, 1) == [1]

    def test_an_unconfirmed_abandon_of_a_job_that_was_reaped_is_lost(
        self, backend: FullBackend, clock: AdvancingClock, outage: Outage, lease: Lease
    ) -> None:
        abandon = Abandon(lease=lease, reason="failed", failure=failure(1))
        with outage(), suppress(BackendError):
            assert backend.abandon([abandon]) == [lease]
        expire(backend, clock)
        assert backend.abandon([abandon]) == [lease]
        assert list(backend.dead_letters.page()) == []
        assert drain_all(backend, clock, 1) == [1]
