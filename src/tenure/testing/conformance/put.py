"""Put: messages are stored once, byte for byte, all or none, and are not leased before they are due."""

import pytest

from tenure.backends.messages import Abandon, Ack
from tenure.testing.conformance.capabilities import PLACES, UNIQUE_IDS, needs
from tenure.testing.conformance.messages import (
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    id_of,
    known,
    make,
    make_many,
    numbers,
    put_and_take,
    take,
    take_all,
)


class PutTests:
    def test_a_put_names_the_ids_it_stored_in_their_order(self, backend: FullBackend) -> None:
        assert backend.put([make(2), make(1)]) == [id_of(2), id_of(1)]

    def test_a_put_of_nothing_stores_nothing(self, backend: FullBackend) -> None:
        assert backend.put([]) == []
        assert take(backend) == []

    @needs(UNIQUE_IDS)
    def test_a_put_of_a_known_id_is_stored_once(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        assert backend.put([make(1), make(2), make(2)]) == [id_of(2)]
        assert drain(backend, 10) == [1, 2]

    @needs(UNIQUE_IDS)
    def test_a_put_of_an_id_under_lease_is_stored_once(self, backend: FullBackend) -> None:
        put_and_take(backend, make(1))
        assert backend.put([make(1)]) == []
        assert take(backend) == []

    @needs("jobs", UNIQUE_IDS)
    def test_an_id_that_is_remembered_as_done_is_not_stored_again(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.ack([Ack(lease=lease)])
        assert backend.put([make(1)]) == []
        assert take(backend) == []
        assert known(backend).state == "done"

    @needs("dead_letters", UNIQUE_IDS)
    def test_the_id_of_a_dead_letter_is_not_stored_again(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.abandon([Abandon(lease=lease, reason="failed")])
        assert backend.put([make(1)]) == []
        assert [record.id for record in backend.dead_letters.page()] == [id_of(1)]

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"line\nline\r\n",
            b"nul\x00nul\x00",
            b"\xff\xfe\x80 invalid utf-8",
            "größe €".encode(),
            bytes(range(256)),
        ],
        ids=["empty", "newlines", "nuls", "invalid-utf-8", "utf-8", "every-byte"],
    )
    def test_bodies_are_opaque_bytes(self, backend: FullBackend, body: bytes) -> None:
        (lease,) = put_and_take(backend, make(1, body=body))
        assert lease.body == body

    def test_bodies_leased_together_are_not_mixed_up(self, backend: FullBackend) -> None:
        bodies = [b"", b"a", b"\x00", b"", b"\xff" * 1000, "€".encode()]
        leases = put_and_take(backend, *[make(number, body=body) for number, body in enumerate(bodies)])
        assert [lease.body for lease in leases] == bodies

    def test_a_lease_tells_what_was_put(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1, priority=7))
        assert (lease.id, lease.queue, lease.priority) == (id_of(1), QUEUE, 7)
        assert (lease.attempts, lease.crashes, lease.vanished, lease.fence) == (0, 0, 0, 1)

    def test_a_delayed_message_comes_when_it_is_due_and_not_before(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        began = clock.now()
        backend.put([make(1, delay=1.0)])
        clock.advance(0.5)
        early = take(backend)
        assert early == [] or clock.now() - began >= 1_000_000  # a broker's clock moved on by itself
        clock.advance(0.6)
        assert numbers(early or take_all(backend, 1)) == [1]

    @needs(PLACES)
    def test_a_message_that_falls_due_takes_its_place_by_priority_and_enqueue(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        backend.put([make(1, delay=1.0), make(2), make(3, priority=9, delay=0.5)])
        clock.advance(1.1)
        assert drain(backend, 10) == [3, 1, 2]

    @needs("jobs")
    def test_an_absolute_due_time_is_kept(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.put([make(1)])
        due = known(backend, 1).enqueued_at + 1_000_000
        backend.put([make(2, due=due)])
        assert known(backend, 2).due_at == due
        assert drain(backend, 2) == [1]
        clock.advance(1.1)
        assert drain(backend, 2) == [2]

    def test_a_large_put_is_stored_whole(self, backend: FullBackend) -> None:
        backend.put(make_many(range(500)))
        assert drain(backend, 100, expected=500) == list(range(500))
