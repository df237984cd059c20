"""Catalogue: the peers that can be measured, as peers.toml describes them."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CATALOGUE = Path(__file__).with_name("peers.toml")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One row of every table: a queue, its server, and the settings it is measured with."""

    name: str
    title: str
    adapter: str
    environment: str
    server: str
    styles: tuple[str, ...]  # of handlers: "sync", "async"; the faster one first
    promise: str
    settings: str
    durable: str = ""  # where it differs from what the server does
    key: bool = False  # part of the default selection

    @property
    def is_ours(self) -> bool:
        return self.adapter == "tenure"

    @property
    def is_node(self) -> bool:
        return self.environment == "node"


def load() -> list[Peer]:
    entries = tomllib.loads(CATALOGUE.read_text())
    return [Peer(name=name, **{**entry, "styles": tuple(entry["styles"])}) for name, entry in entries.items()]


def select(peers: Sequence[Peer], only: str | None) -> list[Peer]:
    """Those named, by whole names or by what stands before a dash; the key ones when nothing is said, or `all`."""
    if not only:
        return [peer for peer in peers if peer.key]
    if only == "all":
        return list(peers)
    wanted = [word.strip() for word in only.split(",")]
    unknown = [word for word in wanted if not any(_is_named(peer, word) for peer in peers)]
    if unknown:
        raise SystemExit(f"no such peer: {', '.join(unknown)}; there are {', '.join(peer.name for peer in peers)}")
    return [peer for peer in peers if any(_is_named(peer, word) for word in wanted)]


def _is_named(peer: Peer, word: str) -> bool:
    return peer.name == word or peer.name.startswith(f"{word}-")
