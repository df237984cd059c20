"""Keys: what the states of guards are kept under; one place, so that whoever looks finds what workers use."""

import hashlib

_LONGEST = 200  # what every store can index


def claim_key(key: str) -> str:
    """Of an idempotency key, which is the app's, whatever the queue and the handler."""
    return _key("once", key)


def lock_key(name: str) -> str:
    """Of a single-instance job: its name, else its handler."""
    return _key("lock", name)


def places_key(handler: str, key: str | None) -> str:
    """Of `at_most`: per `key` where a job has one, whatever its handler, else per handler."""
    return _key("most:handler", handler) if key is None else _key("most:key", key)


def rate_key(handler: str, key: str | None) -> str:
    """Of `rate`: per `key` where a job has one, whatever its handler, else per handler."""
    return _key("rate:handler", handler) if key is None else _key("rate:key", key)


def queue_rate_key(queue: str) -> str:
    return _key("rate:queue", queue)


def pause_key(queue: str) -> str:
    return _key("pause", queue)


def breaker_key(name: str) -> str:
    return _key("breaker", name)


def backend_key(place: str) -> str:
    """Of the breaker around a backend."""
    return _key("backend", place)


def _key(kind: str, name: str) -> str:
    whole = f"{kind}:{name}"
    if len(whole) <= _LONGEST:
        return whole
    return f"{kind}:{name[:100]}…{hashlib.sha256(name.encode()).hexdigest()}"
