"""GuardRules: which guards a job has."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET

from tenure.guards.breaker import Breaker
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import Guard
from tenure.guards.idempotency import DAY, Idempotency
from tenure.guards.rate_limit import Rate, RateLimit, parse_rate
from tenure.guards.states import (
    backend_breaker_key,
    breaker_key,
    claim_key,
    concurrency_key,
    lock_key,
    queue_rate_key,
    rate_key,
)
from tenure.wire.envelope import Envelope
from tenure.worker.backend_breaker import FIRST_PAUSE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """Which guards a job has, by its message and by the settings of its queue.

    `rates` are the rates of queues; `threshold` and `cooldown` are those of every breaker.
    """

    rates: Mapping[str, Rate] = field(default_factory=dict)
    threshold: int = 5
    cooldown: float = 60.0

    def guards_of(self, envelope: Envelope) -> tuple[Guard, ...]:
        """In the order in which they are taken: tokens last, because they cannot be given back. Most jobs have none."""
        if (
            envelope.idempotency_key is None
            and envelope.single_instance is UNSET
            and envelope.at_most is UNSET
            and envelope.rate is UNSET
            and envelope.breaker is UNSET
            and envelope.queue not in self.rates
        ):
            return ()
        return (*self._conditions(envelope), *self._slots(envelope), *self._tokens(envelope))

    def queue_rate(self, queue: str) -> RateLimit | None:
        rate = self.rates.get(queue)
        return None if rate is None else RateLimit(queue_rate_key(queue), rate)

    def breaker(self, name: str) -> Breaker:
        return Breaker(breaker_key(name), self.threshold, self.cooldown)

    def backend_breaker(self, place: str) -> Breaker:
        """The breaker around a backend: it begins with short pauses, because a restart takes only seconds."""
        return Breaker(
            backend_breaker_key(place), self.threshold, self.cooldown, min(FIRST_PAUSE_SECONDS, self.cooldown)
        )

    def _conditions(self, envelope: Envelope) -> list[Guard]:
        found: list[Guard] = []
        if envelope.breaker is not UNSET:
            found.append(self.breaker(envelope.breaker))
        if envelope.idempotency_key is not None:
            ttl = DAY if envelope.idempotency_ttl is UNSET else envelope.idempotency_ttl
            found.append(Idempotency(claim_key(envelope.idempotency_key), ttl))
        return found

    def _slots(self, envelope: Envelope) -> list[Guard]:
        found: list[Guard] = []
        if envelope.single_instance is not UNSET and envelope.single_instance:
            found.append(ConcurrencyLimit(lock_key(envelope.name or envelope.job)))
        if envelope.at_most is not UNSET:
            found.append(ConcurrencyLimit(concurrency_key(envelope.job, _limit_key(envelope)), envelope.at_most))
        return found

    def _tokens(self, envelope: Envelope) -> list[Guard]:
        found: list[Guard] = []
        if envelope.rate is not UNSET:
            found.append(RateLimit(rate_key(envelope.job, _limit_key(envelope)), parse_rate(envelope.rate)))
        limited = self.queue_rate(envelope.queue)
        return found if limited is None else [*found, limited]


def _limit_key(envelope: Envelope) -> str | None:
    return None if envelope.key is UNSET else envelope.key
