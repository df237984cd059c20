"""Moves messages that wait in a Redis list of another system to Tenure, without losing one and without a second run.

One command takes a message from the list of the old system and puts it into a list of the mover, so no old worker can
take it any more. Then the job is stored, under the id of the old message, and the message is removed. After a crash in
between, the next run finds the message in the list of the mover; storing it again changes nothing, as long as Tenure
remembers the id (the setting `retention`). What cannot become a job goes back to the old system; what may be stored
although the new backend failed waits in the list of the mover for the next run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure.app.tenure import Tenure
from tenure.definition.job import Job
from tenure.errors import BackendError, TenureError, Unstorable

BATCH_SIZE = 100  # messages in a round trip; the crash of a run leaves at most so many in the list of the mover

_TAKE = """
local taken = {}
for place = 1, tonumber(ARGV[2]) do
  local message = redis.call('LMOVE', KEYS[1], KEYS[2], ARGV[1], 'LEFT')
  if not message then break end
  taken[place] = message
end
return taken
"""
# Only a message that is still in the list of the mover is changed: another run may have moved it meanwhile.
_REMOVE = """
for _, message in ipairs(ARGV) do
  if redis.call('LREM', KEYS[1], 1, message) == 1 and KEYS[2] then redis.call('HDEL', KEYS[2], message) end
end
"""
_GIVE_BACK = """
for place = 2, #ARGV do
  if redis.call('LREM', KEYS[1], 1, ARGV[place]) == 1 then redis.call(ARGV[1], KEYS[2], ARGV[place]) end
end
"""
_SUFFIX = ":tenure-moving"


class RedisClient(Protocol):
    """What the mover uses of a client such as `redis.Redis`; a client with `decode_responses=True` works too."""

    def llen(self, name: str) -> Any: ...

    def lrange(self, name: str, start: int, end: int) -> Any: ...

    def hget(self, name: str, key: Any) -> Any: ...

    def hlen(self, name: str) -> Any: ...

    def scard(self, name: str) -> Any: ...

    def scan_iter(self, match: Any = None) -> Iterator[Any]: ...

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any: ...


class UnmovedMessage(Exception):
    """A message cannot become a job; it stays in the old system."""


@dataclass(frozen=True, slots=True)
class LeftMessage:
    """A message that stays in the old system, and why."""

    id: str
    task: str
    reason: str


@dataclass(slots=True)
class MoveReport:
    """What `move_waiting` did. `held` counts messages that workers of the old system hold; they are not touched."""

    moved: list[str] = field(default_factory=list)
    left: list[LeftMessage] = field(default_factory=list)
    held: int = 0


@dataclass(frozen=True, slots=True)
class OldMessage:
    """A message of the old system: its id, the name of its task, and the job that it becomes."""

    id: str
    task: str
    job: Callable[[], Job]


@dataclass(frozen=True, slots=True)
class OldList:
    """A list of the old system. `takes` is the side from which its workers take, `LEFT` or `RIGHT`.

    If the list contains ids only, `bodies` is the hash with the messages.
    """

    key: str
    takes: str
    bodies: str | None = None

    @property
    def moving(self) -> str:
        return f"{self.key}{_SUFFIX}"

    def batches(self, client: RedisClient) -> Iterator[list[Any]]:
        """What a run that was killed had taken, then the messages that wait now, each once."""
        if left_over := client.lrange(self.moving, 0, -1):
            yield left_over
        waiting = client.llen(self.key)
        for first in range(0, waiting, BATCH_SIZE):
            count = min(BATCH_SIZE, waiting - first)
            taken = client.eval(_TAKE, 2, self.key, self.moving, self.takes, count)
            if not taken:  # the workers of the old system took the rest
                break
            yield taken

    def remove(self, client: RedisClient, taken: Sequence[Any]) -> None:
        keys = [self.moving, *([] if self.bodies is None else [self.bodies])]
        client.eval(_REMOVE, len(keys), *keys, *taken)

    def give_back(self, client: RedisClient, taken: Sequence[Any]) -> None:
        """Put them behind all other messages of the list."""
        push = "LPUSH" if self.takes == "RIGHT" else "RPUSH"
        client.eval(_GIVE_BACK, 2, self.moving, self.key, push, *taken)


def move(
    app: Tenure, client: RedisClient, source: OldList, read: Callable[[Any], OldMessage], report: MoveReport
) -> None:
    """Move the messages of one list; raise the error of the new backend if it is out of order."""
    app.open_backend()  # takes no message if the settings are wrong or the server is down
    for taken in source.batches(client):
        messages = [read(each) for each in taken]
        ends = _store(app, messages)
        if stored := [each for each, end in zip(taken, ends, strict=True) if isinstance(end, str)]:
            source.remove(client, stored)
        if refused := [each for each, end in zip(taken, ends, strict=True) if _is_final(end)]:
            source.give_back(client, refused)
        for message, end in zip(messages, ends, strict=True):
            if isinstance(end, str):
                report.moved.append(message.id)
            elif _is_final(end):
                report.left.append(LeftMessage(message.id, message.task, _reason(end)))
            else:
                raise end


def _store(app: Tenure, messages: Sequence[OldMessage]) -> list[str | Exception]:
    """The id under which each message is stored, or the error that refused it."""
    jobs = [_job_of(message) for message in messages]
    stored = iter(app.enqueue_each(job for job in jobs if isinstance(job, Job)))
    return [next(stored) if isinstance(job, Job) else job for job in jobs]


def _job_of(message: OldMessage) -> Job | Exception:
    try:
        return message.job().replace(id=message.id)
    except Exception as error:  # any error belongs to this message alone: another system wrote it
        return error


def _is_final(end: str | Exception) -> bool:
    """Whether the message is refused and not stored; after another error of the backend it may be stored."""
    is_unknown = isinstance(end, BackendError) and not isinstance(end, Unstorable)
    return isinstance(end, Exception) and not is_unknown


def _reason(error: Exception) -> str:
    is_told = isinstance(error, (UnmovedMessage, TenureError))
    return str(error) if is_told else f"the message cannot be read: {type(error).__name__}: {error}"


def find_task(tasks: Mapping[str, Any], name: str) -> Any:
    """The job function for a task of the old system."""
    if name not in tasks:
        raise UnmovedMessage(f"no job is given for the task {name!r}")
    return tasks[name]
