"""Moves messages that wait in a Redis list of another system to Tenure, without losing one and without a second run.

One command takes a message from the list of the old system and puts it into a list of the mover, so no old worker can
take it any more. Then the job is stored, under the id of the old message, and the message is removed. After a crash in
between, the next run finds the message in the list of the mover; storing it again changes nothing, as long as Tenure
remembers the id (the setting `retention`). What cannot be moved goes back to the old system.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure.app.tenure import Tenure
from tenure.definition.job import Job
from tenure.errors import InvalidJob, TenureError

# Only a message that is still in the list of the mover is changed: another run may have moved it meanwhile.
_REMOVE = """
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 1 and KEYS[2] then redis.call('HDEL', KEYS[2], ARGV[1]) end
"""
_GIVE_BACK = """
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 1 then redis.call(ARGV[2], KEYS[2], ARGV[1]) end
"""
_SUFFIX = ":tenure-moving"


class RedisClient(Protocol):
    """What the mover uses of a client such as `redis.Redis`; a client with `decode_responses=True` works too."""

    def llen(self, name: str) -> Any: ...

    def lmove(self, first_list: str, second_list: str, src: Any, dest: Any) -> Any: ...

    def lindex(self, name: str, index: int) -> Any: ...

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
class DrainReport:
    """What a run of `drain` did. `held` counts messages that workers of the old system hold; they are not touched."""

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

    def taken(self, client: RedisClient) -> Iterator[Any]:
        """What a run that was killed had taken, then each message that waits now; none is seen twice."""
        for _ in range(client.llen(self.moving)):
            if (left_over := client.lindex(self.moving, -1)) is None:
                break
            yield left_over
        for _ in range(client.llen(self.key)):
            taken = client.lmove(self.key, self.moving, self.takes, "LEFT")
            if taken is None:  # the workers of the old system took the rest
                break
            yield taken

    def remove(self, client: RedisClient, taken: Any) -> None:
        keys = [self.moving, *([] if self.bodies is None else [self.bodies])]
        client.eval(_REMOVE, len(keys), *keys, taken)

    def give_back(self, client: RedisClient, taken: Any) -> None:
        """Put it behind all other messages of the list."""
        push = "LPUSH" if self.takes == "RIGHT" else "RPUSH"
        client.eval(_GIVE_BACK, 2, self.moving, self.key, taken, push)


def move(
    app: Tenure, client: RedisClient, source: OldList, read: Callable[[Any], OldMessage], report: DrainReport
) -> None:
    """Move the messages of one list."""
    for taken in source.taken(client):
        message = read(taken)
        try:
            app.enqueue(message.job().replace(id=message.id))
        except (UnmovedMessage, InvalidJob) as error:
            source.give_back(client, taken)
            report.left.append(LeftMessage(message.id, message.task, str(error)))
        except TenureError:
            source.give_back(client, taken)
            raise
        else:
            source.remove(client, taken)
            report.moved.append(message.id)


def find_task(tasks: Mapping[str, Any], name: str) -> Any:
    """The job function for a task of the old system."""
    if name not in tasks:
        raise UnmovedMessage(f"no job is given for the task {name!r}")
    return tasks[name]
