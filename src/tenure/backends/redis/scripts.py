"""Scripts: the Lua files, called by their hash; a server that has lost them is given them again."""

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import redis

from tenure.backends.redis.connections import Line, Word
from tenure.clock import Clock, SystemClock
from tenure.errors import BackendError

Call = tuple[str, str, Sequence[Word]]


class Scripts:
    """`run("claim", key, arguments)` runs lua/claim.lua, which is told the time when a clock other than ours is set."""

    def __init__(self, line: Line, clock: Clock) -> None:
        self._line = line
        self._clock = None if isinstance(clock, SystemClock) else clock
        folder = files(__package__) / "lua"
        texts = {entry.name.removesuffix(".lua"): entry.read_text("utf-8") for entry in folder.iterdir()}
        prelude = texts.pop("prelude")
        self._texts = {name: f"{prelude}\n{text}" for name, text in texts.items()}
        self._hashes = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._texts.items()}  # noqa: S324 - the server's own choice

    def run(self, name: str, key: str, arguments: Sequence[Word] = ()) -> Any:
        try:
            return self._line.ask("EVALSHA", self._hashes[name], 1, key, self._now(), *arguments)
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
                replies[position] = self._run_whole(*calls[position])
            elif isinstance(reply, redis.ResponseError):
                raise refusal(reply)
        return replies

    def _run_whole(self, name: str, key: str, arguments: Sequence[Word]) -> Any:
        """A script that is not known was not run, so running it now runs it once."""
        try:
            return self._line.ask("EVAL", self._texts[name], 1, key, self._now(), *arguments)
        except redis.ResponseError as error:
            raise refusal(error) from error

    def _now(self) -> Word:
        return "" if self._clock is None else self._clock.now()


def refusal(error: redis.ResponseError) -> BackendError:
    """What the server's refusal means to people."""
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return BackendError("Redis is out of memory and takes no more jobs; raise maxmemory, or keep less history")
    if str(error).startswith("MISCONF"):
        return BackendError(f"Redis cannot write to its disk and takes no more jobs: {error}")
    return BackendError(f"Redis refused a command: {error}")
