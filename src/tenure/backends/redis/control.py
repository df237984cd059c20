"""RedisControl: cancels, reschedules and follows jobs that have not ended."""

from collections.abc import Sequence
from typing import cast

from tenure.backends.messages import Lease
from tenure.backends.parts import HEAD_BYTES
from tenure.backends.records import CancelResult, RescheduleResult
from tenure.backends.redis import codec
from tenure.backends.redis.connections import Argument, RedisClient, with_retries
from tenure.backends.redis.scripts import Call, RedisQueues, Scripts
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress


class RedisControl:
    """Requests to cancel are stored beside the leases of their queue."""

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        """Goes through the queues by name; the cursor is that of the server and its queue."""
        queues = self._queues.all()
        position, _, queue = (cursor or f"0:{queues[0] if queues else ''}").partition(":")
        if queue not in queues:
            return [], None
        arguments = (position, limit, HEAD_BYTES)
        ((_, (after, found)),) = self._queues.run("heads", *arguments, queues=[queue])
        if after != b"0":
            return found, f"{after.decode()}:{queue}"
        rest = queues[queues.index(queue) + 1 :]
        return found, f"0:{rest[0]}" if rest else None

    def __init__(self, client: RedisClient, scripts: Scripts, queues: RedisQueues) -> None:
        self._client = client
        self._scripts = scripts
        self._queues = queues

    def cancel(self, ids: Sequence[str]) -> dict[str, CancelResult]:
        return {id: cast(CancelResult, result) for id, result in self._in_every_queue("cancel", ids).items()}

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, RescheduleResult]:
        moment = due or f"+{round(delay * MICROSECOND)}"
        return {
            id: cast(RescheduleResult, result) for id, result in self._in_every_queue("reschedule", ids, moment).items()
        }

    def cancel_requested(self, leases: Sequence[Lease]) -> list[Lease]:
        groups: dict[str, list[int]] = {}
        for position, lease in enumerate(leases):
            groups.setdefault(self._queues.key(lease.queue), []).append(position)
        commands = [("EXISTS", f"{key}:asked") for key in groups]
        exists_for = with_retries(lambda: self._client.ask_each(commands))
        asked = [item for item, exists in zip(groups.items(), exists_for, strict=True) if exists]
        calls: list[Call] = [
            ("asked", key, [part for each in positions for part in (codec.lease_member(leases[each]), leases[each].id)])
            for key, positions in asked
        ]
        found = with_retries(lambda: self._scripts.run_each(calls))
        hits = [positions[index - 1] for (_, positions), each in zip(asked, found, strict=True) for index in each]
        return [leases[position] for position in sorted(hits)]

    def save_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        groups: dict[str, list[bytes | str]] = {}
        for lease, progress in items:
            arguments = groups.setdefault(self._queues.key(lease.queue), [])
            arguments += [codec.lease_member(lease), lease.id, codec.json_bytes(progress)]
        calls: list[Call] = [("progress", key, arguments) for key, arguments in groups.items()]
        with_retries(lambda: self._scripts.run_each(calls))

    def _in_every_queue(self, script: str, ids: Sequence[str], *given: Argument) -> dict[str, str]:
        """The answer of a script for each id from the queue that has it; nothing else knows the queue of an id."""
        answers = dict.fromkeys(ids, "unknown")
        if answers:
            for found in self._scripts.run_each(self._queues.calls(script, [*given, *answers])):
                known = zip(answers, found, strict=True)
                answers |= {id: answer.decode() for id, answer in known if answer != b"unknown"}
        return answers
