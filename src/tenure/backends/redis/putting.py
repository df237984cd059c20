"""Putting: stores messages, each queue's in one step."""

from collections.abc import Sequence

from tenure.backends.contract import Message
from tenure.backends.redis import notation
from tenure.backends.redis.connections import Line, Word
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Scripts
from tenure.errors import BackendError, PartialPut


class Putting:
    """A put without an answer is put again: an id is stored once, and the bytes tell whose it is."""

    def __init__(self, line: Line, scripts: Scripts, names: Names) -> None:
        self._line = line
        self._scripts = scripts
        self._names = names
        self._registered: set[str] = set()

    def put(self, messages: Sequence[Message]) -> list[str]:
        stored: set[str] = set()
        for queue, group in _by_queue(messages).items():
            try:
                stored |= self._put(queue, list(group.values()))
            except BackendError as error:
                if not stored:
                    raise
                raise PartialPut(f"{len(stored)} messages were stored, then queue {queue!r} failed: {error}",
                                 [message.id for message in messages if message.id in stored]) from error  # fmt: skip
        return [id for id in dict.fromkeys(message.id for message in messages) if id in stored]

    def _put(self, queue: str, messages: Sequence[Message]) -> set[str]:
        """The ids of these that are stored now and were not known before."""
        ids = [message.id for message in messages]
        words: list[Word] = [len(ids), *ids, *map(notation.tail, messages), *map(notation.rank, messages)]
        exclusive = any(message.unique for message in messages)
        if exclusive or any(message.due or message.delay for message in messages):
            words += map(notation.due, messages)
        if exclusive:
            words += [message.unique or "" for message in messages]
        if queue not in self._registered:
            self._register(queue)
        repeats: list[None] = []
        before, refused = patiently(
            lambda: self._scripts.run("put", self._names.queue(queue), words), lambda: repeats.append(None)
        )
        if before == 0:
            self._register(queue)  # the first of its queue, perhaps since everything was deleted
        known = [messages[index - 1] for index in refused]
        if known and repeats:
            known = self._of_others(queue, known)
        return set(ids) - {message.id for message in known}

    def _of_others(self, queue: str, messages: Sequence[Message]) -> list[Message]:
        """Those of these known ids whose bytes are not ours: ours were stored by a call that was not answered."""
        key = f"{self._names.queue(queue)}:jobs"
        records = patiently(lambda: self._line.ask("HMGET", key, *(message.id for message in messages)))
        return [
            message
            for message, record in zip(messages, records, strict=True)
            if not (record or b"").endswith(b" " + notation.tail(message))
        ]

    def _register(self, queue: str) -> None:
        """Before the first put: a queue with jobs must be known to those who look for them."""
        patiently(lambda: self._line.ask("SADD", self._names.queues, queue))
        self._registered.add(queue)


def _by_queue(messages: Sequence[Message]) -> dict[str, dict[str, Message]]:
    """Queue → id → message; of two with one id the first."""
    groups: dict[str, dict[str, Message]] = {}
    for message in messages:
        groups.setdefault(message.queue, {}).setdefault(message.id, message)
    return groups
