"""RateLimit: how many jobs may start in any period, by the generic cell rate algorithm (GCRA).

Only a job that starts spends a token. Starts are spread evenly, except for a burst of a few at once. A larger burst
makes the refill slower, so that the limit holds in every window of the period, not only between full minutes.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from tenure.errors import InvalidJob
from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Bucket, Holder, State, free_tokens, pack, unpack
from tenure.guards.store import Change, Decision, KeyUpdate

_PERIODS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600,
            "d": 86_400, "day": 86_400}  # fmt: skip
_MAX_COUNT = 999_999_999
_RATE = re.compile(rf"\s*([0-9]{{1,9}})\s*/\s*({'|'.join(_PERIODS)})\s*(?:burst\s+([0-9]{{1,9}})\s*)?")


class Rate(Struct, frozen=True, gc=False):
    """At most `count` starts in any `period` seconds, up to `burst` of them at once."""

    count: int
    period: int
    burst: int = 1

    @classmethod
    def of(cls, count: int, period: int, burst: int | None = None) -> "Rate":
        """By default a tenth may start at once, so that a busy limit is not slowed down by its even spacing."""
        return cls(count, period, max(1, count // 10) if burst is None else burst)

    @property
    def interval(self) -> int:
        """Microseconds between tokens, rounded up so that the limit is never exceeded."""
        return -(-self.period * 1_000_000 // (self.count - self.burst + 1))

    def __str__(self) -> str:
        period = next((name for name in ("s", "min", "h", "d") if _PERIODS[name] == self.period), f"{self.period}s")
        has_default_burst = self == Rate.of(self.count, self.period)
        return f"{self.count}/{period}" + ("" if has_default_burst else f" burst {self.burst}")


def parse_rate(text: str | int) -> Rate:
    """A rate as users write it: "60/min", "10/s burst 5", or a whole number per minute."""
    if type(text) is str:  # first: every message with a rate comes here
        return _parse(text)
    if isinstance(text, int) and not isinstance(text, bool):
        if not 1 <= text <= _MAX_COUNT:  # not shown: Python cannot print a number of more than 4300 digits
            raise InvalidJob(f"a rate must lie between 1 and {_MAX_COUNT} a minute")
        text = f"{text}/min"
    if not isinstance(text, str):
        raise InvalidJob(_not_a_rate(text))
    return _parse(text)


@lru_cache(maxsize=1024)  # the same few rates are in every message
def _parse(text: str) -> Rate:
    found = _RATE.fullmatch(text)
    if found is None:
        raise InvalidJob(_not_a_rate(text))
    rate = Rate.of(int(found[1]), _PERIODS[found[2]], int(found[3]) if found[3] else None)
    if rate.count < 1 or not 1 <= rate.burst <= rate.count:
        raise InvalidJob(f"the rate {text!r:.80} must allow at least 1, and a burst of 1 up to the rate")
    return rate


def _not_a_rate(text: object) -> str:
    return (
        f'{text!r:.80} is not a rate; write "60/min", "10/s", "10/s burst 5", or a whole number a minute, '
        f"up to {_MAX_COUNT}"
    )


class RateLimit(Struct, frozen=True, gc=False):
    """Every start takes a token."""

    key: str
    rate: Rate

    def take(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:  # noqa: ARG002
        bucket = self.bucket(state, now)
        if bucket.next_at() > now:
            return Refusal(self.key, "rate_limited", bucket.next_at())
        spent = Bucket(bucket.interval, bucket.burst, max(now, bucket.arrival) + bucket.interval)
        return KeyUpdate(pack(spent), spent.arrival, spent.next_at())

    def renew(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        """Nothing to do: a token is spent, not held."""

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> KeyUpdate | None:
        """Nothing to do: a spent token is not given back, because the next start may depend on it."""

    def bucket(self, state: State | None, now: int) -> Bucket:
        arrival = state.arrival if isinstance(state, Bucket) else now
        return Bucket(self.rate.interval, self.rate.burst, min(arrival, now + self.rate.interval * self.rate.burst))

    def tokens(self, state: State | None, now: int) -> int:
        """How many jobs could start now."""
        return max(0, free_tokens(self.bucket(state, now), now))

    def fill(self) -> Change:
        """Give back all tokens, and wake as many parked jobs as there are tokens then."""

        def decide(states: Sequence[bytes | None], now: int) -> Decision:  # noqa: ARG001
            state = unpack(states[0])
            burst = state.burst if isinstance(state, Bucket) else self.rate.burst
            return Decision(None, [KeyUpdate(None, wake=burst)])

        return Change((self.key,), decide)

    def adopt(self) -> Change:
        """Let this rate apply to a bucket that another rate left, and wake the parked jobs that can start now.

        As many tokens are spent as before.
        """

        def decide(states: Sequence[bytes | None], now: int) -> Decision:
            state = unpack(states[0])
            if isinstance(state, Bucket):
                if (state.interval, state.burst) == (self.rate.interval, self.rate.burst):
                    return Decision(None)
                arrival = now + (state.arrival - now) * self.rate.interval // state.interval
                state = Bucket(self.rate.interval, self.rate.burst, arrival)
            bucket = self.bucket(state, now)
            update = KeyUpdate(pack(bucket), bucket.arrival, bucket.next_at(), self.tokens(state, now))
            return Decision(None, [update])

        return Change((self.key,), decide)
