"""Followers: which jobs follow one that has ended, and under which ids."""

import hashlib
from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, structs

from tenure.wire.envelope import Callbacks, Envelope, Follower

Ending = Literal["done", "dead", "cancelled", "expired"]


def followers(envelope: Envelope, ending: Ending) -> Iterator[tuple[str, Follower]]:
    """Each with its id, which is always the same: a job that ends twice is followed once."""
    callbacks = envelope.callbacks
    if callbacks is UNSET:
        return
    called = {"done": callbacks.then, "dead": callbacks.on_failure}.get(ending, ())
    for kind, given in (("then" if ending == "done" else "on_failure", called), ("finally", callbacks.finally_)):
        for number, follower in enumerate(given):
            yield follower_id(envelope.identifier, f"{kind}:{number}"), follower
    if ending == "done" and callbacks.chain:
        yield follower_id(envelope.identifier, "chain"), _head(callbacks.chain)


def _head(chain: tuple[Follower, ...]) -> Follower:
    """The first of a chain, with the rest behind what it brings itself."""
    first, *rest = chain
    if not rest:
        return first
    own = first.message.callbacks or Callbacks()
    longer = structs.replace(own, chain=(*own.chain, *rest))
    return structs.replace(first, message=structs.replace(first.message, callbacks=longer))


def follower_id(parent: str, kind: str) -> str:
    """A UUID of version 8, which is for ids made by rules of one's own: the parent's time, then a digest."""
    digest = hashlib.sha256(f"{parent} {kind}".encode()).hexdigest()
    time = parent[:13] if len(parent) == 36 else f"{digest[32:40]}-{digest[40:44]}"
    return f"{time}-8{digest[:3]}-8{digest[3:6]}-{digest[6:18]}"
