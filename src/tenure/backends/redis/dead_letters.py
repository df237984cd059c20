"""RedisDeadLetters: a dead letter's record stays where it was; a sorted set for each queue orders the letters."""

from collections.abc import Sequence
from operator import attrgetter

from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.backends.redis import codec
from tenure.backends.redis.connections import Argument
from tenure.backends.redis.jobs import trim
from tenure.backends.redis.scripts import RedisQueues, Scripts


class RedisDeadLetters:
    def __init__(self, scripts: Scripts, queues: RedisQueues) -> None:
        self._scripts = scripts
        self._queues = queues

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        arguments: tuple[Argument, ...] = (limit, *(after or ("", "")))
        pages = self._queues.run("dead", *arguments, queues=None if queue is None else [queue])
        letters = [
            codec.decode_dead(id.decode(), name, died, record, outcome, codec.decode_failures(failures))
            for name, page in pages
            for id, died, record, outcome, failures in page
        ]
        return sorted(letters, key=attrgetter("finished_at", "id"))[:limit]

    def replay(self, ids: Sequence[str]) -> list[str]:
        return self._act("replay", ids)

    def discard(self, ids: Sequence[str]) -> list[str]:
        return self._act("discard", ids)

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:
        """One queue at a time; not repeated without an answer, because a second call would find nothing new."""
        stored: set[str] = set()
        queues = list(dict.fromkeys(letter.message.queue for letter in letters))
        self._queues.register(queues)
        for queue in queues:
            arguments = [
                argument
                for letter in letters
                if letter.message.queue == queue
                for argument in codec.dead_letter_arguments(letter)
            ]
            stored |= {id.decode() for id in self._scripts.run("add_dead", self._queues.key(queue), arguments)}
        return [id for id in dict.fromkeys(letter.message.id for letter in letters) if id in stored]

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        return trim(self._scripts, self._queues, "dead", before, limit, queue)

    def _act(self, script: str, ids: Sequence[str]) -> list[str]:
        """Not repeated without an answer: a second call would say that nothing was dead."""
        found = self._scripts.run_each(self._queues.calls(script, tuple(dict.fromkeys(ids))))
        return [id.decode() for each in found for id in each]
