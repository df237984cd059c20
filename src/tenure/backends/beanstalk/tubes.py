"""Tubes: one per queue, with a prefix that keeps ours apart from those of others."""

from collections.abc import Sequence


class Tubes:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode("ascii")

    def tube(self, queue: str) -> bytes:
        return self._prefix + queue.encode("ascii")

    def tubes(self, queues: Sequence[str]) -> list[bytes]:
        return [self.tube(queue) for queue in queues]

    def queue(self, tube: bytes) -> str:
        return tube.removeprefix(self._prefix).decode("ascii")

    def ours(self, listed: bytes) -> list[bytes]:
        """Those of the tubes in the server's list that have our prefix."""
        tubes = [line.removeprefix(b"- ").strip(b'"') for line in listed.splitlines() if line.startswith(b"- ")]
        return [tube for tube in tubes if tube.startswith(self._prefix)]
