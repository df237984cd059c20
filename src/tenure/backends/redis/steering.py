"""RedisSteering: cancelling and rescheduling jobs from outside, and how far they are."""

from collections.abc import Sequence
from typing import cast

from tenure.backends.asking import Fate, Turn
from tenure.backends.contract import Lease
from tenure.backends.redis import notation
from tenure.backends.redis.connections import Line, Word
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Call, Scripts
from tenure.clock import MICROSECOND
from tenure.definition.progress import Progress


class RedisSteering:
    """Requests are kept beside the leases of their queue."""

    def __init__(self, line: Line, scripts: Scripts, names: Names) -> None:
        self._line = line
        self._scripts = scripts
        self._names = names

    def cancel(self, ids: Sequence[str]) -> dict[str, Fate]:
        return {id: cast(Fate, fate) for id, fate in self._everywhere("cancel", ids).items()}

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, Turn]:
        moment = due or f"+{round(delay * MICROSECOND)}"
        return {id: cast(Turn, turn) for id, turn in self._everywhere("reschedule", ids, moment).items()}

    def asked_to_stop(self, leases: Sequence[Lease]) -> list[Lease]:
        groups: dict[str, list[int]] = {}
        for position, lease in enumerate(leases):
            groups.setdefault(self._names.queue(lease.queue), []).append(position)
        commands = [("EXISTS", f"{key}:asked") for key in groups]
        anybody = patiently(lambda: self._line.ask_each(commands))
        asked = [item for item, exists in zip(groups.items(), anybody, strict=True) if exists]
        calls: list[Call] = [
            ("asked", key, [word for each in positions for word in (notation.member(leases[each]), leases[each].id)])
            for key, positions in asked
        ]
        found = patiently(lambda: self._scripts.run_each(calls))
        hits = [positions[index - 1] for (_, positions), each in zip(asked, found, strict=True) for index in each]
        return [leases[position] for position in sorted(hits)]

    def note_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        groups: dict[str, list[bytes | str]] = {}
        for lease, progress in items:
            words = groups.setdefault(self._names.queue(lease.queue), [])
            words += [notation.member(lease), lease.id, notation.text(progress)]
        calls: list[Call] = [("progress", key, words) for key, words in groups.items()]
        patiently(lambda: self._scripts.run_each(calls))

    def _everywhere(self, verb: str, ids: Sequence[str], *given: Word) -> dict[str, str]:
        """What a script says of each id on the queue that has it: nobody knows which that is."""
        answers = dict.fromkeys(ids, "unknown")
        queues = patiently(lambda: self._line.ask("SMEMBERS", self._names.queues)) if ids else []
        calls: list[Call] = [(verb, self._names.queue(queue.decode()), [*given, *answers]) for queue in queues]
        for found in self._scripts.run_each(calls):
            answers |= {id: answer.decode() for id, answer in zip(answers, found, strict=True) if answer != b"unknown"}
        return answers
