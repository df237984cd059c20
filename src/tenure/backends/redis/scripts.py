"""Scripts: the Lua files, called by their hash; a server that has lost them is given them again."""

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec
import redis

from tenure.backends.redis.connections import Line, Word
from tenure.clock import Clock, SystemClock
from tenure.errors import BackendError

Call = tuple[str, str, Sequence[Word]]
_WITH_GUARDS = ("cancel", "change", "park", "reschedule", "rows", "sweep", "waking")
_SETTLING = ("ack", "nack", "abandon")
_UNPACK = "local given = cjson.decode(ARGV[1]); ARGV[1] = given.time"


class Scripts:
    """`run("claim", key, arguments)` runs lua/claim.lua, which is told the time when a clock other than ours is set."""

    def __init__(self, line: Line, clock: Clock) -> None:
        self._line = line
        self._clock = None if isinstance(clock, SystemClock) else clock
        folder = files(__package__) / "lua"
        texts = {entry.name.removesuffix(".lua"): entry.read_text("utf-8") for entry in folder.iterdir()}
        self._texts = _composed(texts)
        self._hashes = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._texts.items()}  # noqa: S324 - the server's own choice

    def run(self, name: str, key: str, arguments: Sequence[Word] = ()) -> Any:
        return self._run(name, key, (self._now(), *arguments))

    def run_guarded(self, name: str, key: str, plan: dict[str, Any], arguments: Sequence[Word]) -> Any:
        """A script that settles, only if a decision about guards still holds."""
        given = msgspec.json.encode({"time": str(self._now()), "plan": plan})
        return self._run(f"guarded {name}", key, (given, *arguments))

    def _run(self, name: str, key: str, arguments: Sequence[Word]) -> Any:
        try:
            return self._line.ask("EVALSHA", self._hashes[name], 1, key, *arguments)
        except redis.exceptions.NoScriptError:
            return self._run_whole(name, key, arguments)
        except redis.ResponseError as error:
            raise refusal(error) from error

    def run_each(self, calls: Sequence[Call]) -> list[Any]:
        """The replies of several, in few round trips; an error is raised after all were asked."""
        if len(calls) == 1:
            return [self.run(*calls[0])]
        commands = [("EVALSHA", self._hashes[name], 1, key, self._now(), *given) for name, key, given in calls]
        replies = self._line.ask_each(commands)
        for position, reply in enumerate(replies):
            if isinstance(reply, redis.exceptions.NoScriptError):
                name, key, given = calls[position]
                replies[position] = self._run_whole(name, key, (self._now(), *given))
            elif isinstance(reply, redis.ResponseError):
                raise refusal(reply)
        return replies

    def _run_whole(self, name: str, key: str, arguments: Sequence[Word]) -> Any:
        """A script that is not known was not run, so running it now runs it once."""
        try:
            return self._line.ask("EVAL", self._texts[name], 1, key, *arguments)
        except redis.ResponseError as error:
            raise refusal(error) from error

    def _now(self) -> Word:
        return "" if self._clock is None else self._clock.now()


def _composed(texts: dict[str, str]) -> dict[str, str]:
    """Each verb behind the prelude, and the words of guards where they are used."""
    prelude, guards, guarded = texts.pop("prelude"), texts.pop("guards"), texts.pop("guarded")
    composed = {
        name: f"{prelude}\n{guards}\n{text}" if name in _WITH_GUARDS else f"{prelude}\n{text}"
        for name, text in texts.items()
    }
    for name in _SETTLING:
        verb = f"local function verb()\n{texts[name]}\nend"
        composed[f"guarded {name}"] = f"{_UNPACK}\n{prelude}\n{guards}\n{verb}\n{guarded}"
    return composed


def refusal(error: redis.ResponseError) -> BackendError:
    """What the server's refusal means to people."""
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return BackendError("Redis is out of memory and takes no more jobs; raise maxmemory, or keep less history")
    if str(error).startswith("MISCONF"):
        return BackendError(f"Redis cannot write to its disk and takes no more jobs: {error}")
    return BackendError(f"Redis refused a command: {error}")
