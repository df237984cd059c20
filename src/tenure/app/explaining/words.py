"""Guards in words: what a key stands for, and how somebody frees it by hand."""

from typing import NamedTuple


class Words(NamedTuple):
    """`what` a job waits for, and the call that `frees` it, whoever holds it."""

    what: str
    frees: str


_KINDS = {
    "once:": Words("the idempotency key {}", "app.forget({})"),
    "lock:": Words("the single-instance lock {}", "app.guards.unlock({})"),
    "most:handler:": Words("one of the places of handler {}", "app.guards.free({})"),
    "most:key:": Words("one of the places of key {}", 'app.guards.free("", {})'),
    "rate:handler:": Words("the rate of handler {}", "app.guards.rate(1, handler={}).reset()"),
    "rate:key:": Words("the rate of key {}", "app.guards.rate(1, key={}).reset()"),
    "rate:queue:": Words("the rate of queue {}", "app.guards.queue({}).reset()"),
    "breaker:": Words("the circuit breaker {}", "app.guards.breaker({}).reset()"),
}


def words_of(key: str) -> Words:
    """What `tenure.guards.keys` made a key of."""
    for kind, words in _KINDS.items():
        if key.startswith(kind):
            name = repr(key.removeprefix(kind))
            return Words(words.what.format(name), words.frees.format(name))
    return Words(f"the guard {key!r}", "")
