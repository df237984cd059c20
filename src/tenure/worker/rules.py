"""Rules: which guards a job has, from what its message says and what the settings say about its queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET

from tenure.guards.breaker import Breaker
from tenure.guards.guard import Guard
from tenure.guards.idempotency import DAY, Once
from tenure.guards.keys import backend_key, breaker_key, claim_key, lock_key, places_key, queue_rate_key, rate_key
from tenure.guards.rate import AtRate, Rate, parse
from tenure.guards.slots import AtMost
from tenure.wire.envelope import Envelope
from tenure.worker.outage import FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """`rates` are those of queues; `threshold` and `cooldown` are those of every breaker."""

    rates: Mapping[str, Rate] = field(default_factory=dict)
    threshold: int = 5
    cooldown: float = 60.0

    def guards_of(self, envelope: Envelope) -> tuple[Guard, ...]:
        """In the order they are taken: a token cannot be given back, so it comes last; most jobs have none at all."""
        if (
            envelope.idempotency_key is None
            and envelope.single_instance is UNSET
            and envelope.at_most is UNSET
            and envelope.rate is UNSET
            and envelope.breaker is UNSET
            and envelope.queue not in self.rates
        ):
            return ()
        return (*self._conditions(envelope), *self._places(envelope), *self._tokens(envelope))

    def queue_rate(self, queue: str) -> AtRate | None:
        rate = self.rates.get(queue)
        return None if rate is None else AtRate(queue_rate_key(queue), rate)

    def breaker(self, name: str) -> Breaker:
        return Breaker(breaker_key(name), self.threshold, self.cooldown)

    def backend_breaker(self, place: str) -> Breaker:
        """The one around a backend: it begins with short pauses, because a restart is over in seconds."""
        return Breaker(backend_key(place), self.threshold, self.cooldown, min(FIRST, self.cooldown))

    def _conditions(self, envelope: Envelope) -> list[Guard]:
        found: list[Guard] = []
        if envelope.breaker is not UNSET:
            found.append(self.breaker(envelope.breaker))
        if envelope.idempotency_key is not None:
            ttl = DAY if envelope.idempotency_ttl is UNSET else envelope.idempotency_ttl
            found.append(Once(claim_key(envelope.idempotency_key), ttl))
        return found

    def _places(self, envelope: Envelope) -> list[Guard]:
        found: list[Guard] = []
        if envelope.single_instance is not UNSET and envelope.single_instance:
            found.append(AtMost(lock_key(envelope.name or envelope.job)))
        if envelope.at_most is not UNSET:
            found.append(AtMost(places_key(envelope.job, _key(envelope)), envelope.at_most))
        return found

    def _tokens(self, envelope: Envelope) -> list[Guard]:
        found: list[Guard] = []
        if envelope.rate is not UNSET:
            found.append(AtRate(rate_key(envelope.job, _key(envelope)), parse(envelope.rate)))
        limited = self.queue_rate(envelope.queue)
        return found if limited is None else [*found, limited]


def _key(envelope: Envelope) -> str | None:
    return None if envelope.key is UNSET else envelope.key
