"""Scripts: the Lua files, called by their hash, and the names of the keys that they work on.

A server that does not know a script gets its text.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec
import redis
import redis.exceptions

from tenure.backends.redis.connections import Argument, ClusterClient, RedisClient, translate_error, with_retries
from tenure.clock import Clock, SystemClock

Call = tuple[str, str, Sequence[Argument]]
_SCAN_COUNT = 1000  # ids compared by one step of a scan: at most 4 ms of a server with two busy cores
_GUARD_SCRIPTS = ("cancel", "change", "park", "reschedule", "rows", "sweep", "waking")
_SETTLEMENT_SCRIPTS = ("ack", "nack", "abandon")
_UNPACK = "local given = cjson.decode(ARGV[1]); ARGV[1] = given.time"


@dataclass(frozen=True)
class KeyNames:
    """The keys of one app on a server, below its prefix.

    `tenure:{emails}` and all keys that a script derives from it are in one slot of a cluster.
    """

    prefix: str

    def queue(self, name: str) -> str:
        return f"{self.prefix}:{{{name}}}"

    def wakes(self, names: Iterable[str]) -> list[str]:
        return [f"{self.queue(name)}:wake" for name in names]

    @property
    def queues(self) -> str:
        """The set of all queues that ever had a job."""
        return f"{self.prefix}:queues"

    @property
    def ended(self) -> str:
        """The channel on which the server tells that jobs have ended."""
        return f"{self.prefix}:ended"

    @property
    def guards(self) -> str:
        return f"{self.prefix}:{{{self.prefix}}}:guards"

    @property
    def uniques(self) -> str:
        return f"{self.prefix}:{{{self.prefix}}}:uniques"

    @property
    def tallies(self) -> str:
        return f"{self.prefix}:tallies:{{{self.prefix}}}"

    @property
    def records(self) -> str:
        """Records of jobs on another broker."""
        return f"{self.prefix}:records:{{{self.prefix}}}"

    @property
    def workers(self) -> str:
        return f"{self.prefix}:workers:{{{self.prefix}}}"

    @property
    def ledger(self) -> str:
        return f"{self.prefix}:ledger:{{{self.prefix}}}"

    @property
    def audit(self) -> str:
        return f"{self.prefix}:audit:{{{self.prefix}}}"


class Scripts:
    """`run("claim", key, arguments)` runs lua/claim.lua, with the time of a test clock if there is one."""

    def __init__(self, client: RedisClient, clock: Clock) -> None:
        self._client = client
        self._clock = None if isinstance(clock, SystemClock) else clock
        folder = files("tenure.backends.redis") / "lua"
        texts = {entry.name.removesuffix(".lua"): entry.read_text("utf-8") for entry in folder.iterdir()}
        self._texts = _composed(texts, tells_ends=not isinstance(client, ClusterClient))
        self._hashes = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._texts.items()}  # noqa: S324 - Redis requires it

    def run(self, name: str, key: str, arguments: Sequence[Argument] = ()) -> Any:
        return self._run(name, key, (self._now(), *arguments))

    def run_guarded(self, name: str, key: str, plan: dict[str, Any], arguments: Sequence[Argument]) -> Any:
        """Run a settlement script, only if a decision about guards still holds."""
        given = msgspec.json.encode({"time": str(self._now()), "plan": plan})
        return self._run(f"guarded {name}", key, (given, *arguments))

    def _run(self, name: str, key: str, arguments: Sequence[Argument]) -> Any:
        try:
            return self._client.ask("EVALSHA", self._hashes[name], 1, key, *arguments)
        except redis.exceptions.NoScriptError:
            return self._run_text(name, key, arguments)

    def run_each(self, calls: Sequence[Call]) -> list[Any]:
        """The replies of several scripts, in few round trips; an error is raised after all have run."""
        if len(calls) == 1:
            return [self.run(*calls[0])]
        commands = [("EVALSHA", self._hashes[name], 1, key, self._now(), *given) for name, key, given in calls]
        replies = self._client.ask_each(commands)
        for position, reply in enumerate(replies):
            if isinstance(reply, redis.exceptions.NoScriptError):
                name, key, given = calls[position]
                replies[position] = self._run_text(name, key, (self._now(), *given))
            elif isinstance(reply, redis.ResponseError):
                raise translate_error(reply)
        return replies

    def _run_text(self, name: str, key: str, arguments: Sequence[Argument]) -> Any:
        """Run a script that the server did not know; it has not run before."""
        return self._client.ask("EVAL", self._texts[name], 1, key, *arguments)

    def _now(self) -> Argument:
        return "" if self._clock is None else self._clock.now()


class RedisQueues:
    """The queues that have, or had, jobs, and scripts that run on each of them."""

    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames) -> None:
        self._client = client
        self._scripts = scripts
        self._names = names
        self.key = names.queue

    def all(self) -> list[str]:
        return sorted(name.decode() for name in with_retries(lambda: self._client.ask("SMEMBERS", self._names.queues)))

    def register(self, queues: Sequence[str]) -> None:
        """Before the first put: other processes find jobs only in registered queues."""
        if queues:
            with_retries(lambda: self._client.ask("SADD", self._names.queues, *queues))

    def run(self, script: str, *arguments: Argument, queues: Sequence[str] | None = None) -> list[tuple[str, Any]]:
        """The answers of a read-only script on every queue, or on these."""
        names = self.all() if queues is None else queues
        calls = [(script, self.key(queue), arguments) for queue in names]
        return list(zip(names, with_retries(lambda: self._scripts.run_each(calls)), strict=True))

    def scan_ids(self, queue: str, prefix: str, limit: int) -> list[str]:
        """Up to `limit` ids of jobs of a queue that start with a text; reads the ids of the whole queue."""
        return scan_ids(self._scripts, self.key(queue), prefix, limit)

    def calls(self, script: str, arguments: Sequence[Argument]) -> list[Call]:
        return [(script, self.key(queue), arguments) for queue in self.all()]


def scan_ids(scripts: Scripts, key: str, prefix: str, limit: int) -> list[str]:
    """Up to `limit` ids of the jobs below a key that start with a text; the server serves others between the steps."""
    found: set[str] = set()  # a scan may return an id twice
    cursor, pattern = b"0", starting_with(prefix)
    while len(found) < limit:
        cursor, ids = with_retries(partial(scripts.run, "scan_ids", key, [cursor, pattern, _SCAN_COUNT]))
        found |= {id.decode() for id in ids}
        if cursor == b"0":
            break
    return sorted(found)[:limit]


def starting_with(text: str) -> str:
    """The pattern for texts that start with this one."""
    return re.sub(r"([*?\[\]\\^])", r"\\\1", text) + "*"


def _composed(texts: dict[str, str], tells_ends: bool) -> dict[str, str]:
    """Each script after the prelude, and after the guard functions where it uses them."""
    prelude, guards, guarded = texts.pop("prelude"), texts.pop("guards"), texts.pop("guarded")
    prelude = f"local TELLS_ENDS = {str(tells_ends).lower()}\n{prelude}"
    composed = {
        name: f"{prelude}\n{guards}\n{text}" if name in _GUARD_SCRIPTS else f"{prelude}\n{text}"
        for name, text in texts.items()
    }
    for name in _SETTLEMENT_SCRIPTS:
        verb = f"local function verb()\n{texts[name]}\nend"
        composed[f"guarded {name}"] = f"{_UNPACK}\n{prelude}\n{guards}\n{verb}\n{guarded}"
    return composed
