"""RedisGuarding: guards and the jobs that wait for them, beside the queues.

A change is decided here, on rows that were read, and carried out by a script if they are still the same; else it is
decided again. With a settlement that is the script that settles. Some change always gets through, so all do in time.
"""

import itertools
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Scripts
from tenure.clock import MICROSECOND
from tenure.guards.states import knock
from tenure.guards.store import PROMISE, Change, Row, effects

_text = msgspec.json.Encoder().encode
_TRIES_AT_ONCE = 3


class Rows:
    """Rows as they were read: their text is what must not have changed."""

    def __init__(self, now: int, texts: Mapping[str, bytes]) -> None:
        self.now = now
        self.texts = texts
        self.rows = {key: _row(text) for key, text in texts.items() if text}

    def read(self) -> list[tuple[str, str]]:
        return [(key, text.decode()) for key, text in self.texts.items()]


class RedisGuarding:
    """The verbs of a Store, and what a backend that parks needs of it."""

    def __init__(self, scripts: Scripts, names: Names) -> None:
        self._scripts = scripts
        self._key = names.guards

    def change(self, changes: Sequence[Change]) -> list[Any]:
        for tries in itertools.count():
            rows = self.rows({key for change in changes for key in change.keys})
            answers, plan = planned(changes, rows)
            if not plan["write"] or self._scripts.run("change", self._key, [_text(plan)]):
                return answers
            pause(tries)
        raise AssertionError  # itertools.count has no end

    def look(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        rows = self.rows(keys)
        seen = {key: row.seen(rows.now) for key, row in rows.rows.items()}
        return rows.now, {key: state for key, state in seen.items() if state is not None}

    def sweep(self, limit: int) -> int:
        swept: int = patiently(lambda: self._scripts.run("sweep", self._key, [limit]))
        return swept

    def rouse(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        if keys is None:
            waking = patiently(lambda: self._scripts.run("waking", self._key, [limit]))
            keys = [key.decode() for key in waking]
        for tries in itertools.count():
            rows = self.rows(keys)
            due = sorted(key for key, row in rows.rows.items() if row.waiting and row.wake_at <= rows.now)[:limit]
            if not due:
                return {key: (row.wake_at - rows.now) / MICROSECOND for key, row in rows.rows.items() if row.waiting}
            if not self._scripts.run("change", self._key, [_text(_rousing(rows, due))]):
                pause(tries)
        raise AssertionError

    def rows(self, keys: Iterable[str]) -> Rows:
        named = sorted(set(keys))
        now, found = patiently(lambda: self._scripts.run("rows", self._key, named))
        return Rows(int(now), {key: text or b"" for key, text in zip(named, found, strict=True)})


def planned(changes: Sequence[Change], rows: Rows) -> tuple[list[Any], dict[str, Any]]:
    """The answers to changes, and what a script is to write, provided that nothing was written meanwhile."""
    answers, written, wakes = effects(changes, rows.rows, rows.now)
    again = str(rows.now + PROMISE)
    write = [
        (key, str(row.expires), str(row.wake_at), _state(row), wakes.get(key, 0), again) for key, row in written.items()
    ]
    return answers, {"read": rows.read(), "write": write}


def pause(tries: int) -> None:
    """After a few conflicts, for longer and longer, so that many who want one key do not march in step."""
    if tries >= _TRIES_AT_ONCE:
        time.sleep(random.uniform(0, 0.001 * min(tries, 20)))  # noqa: S311 - jitter


def _rousing(rows: Rows, due: Sequence[str]) -> dict[str, Any]:
    write = []
    for key in due:
        row = rows.rows[key]
        count, again = knock(row.state, rows.now)
        write.append((key, str(row.expires), str(row.wake_at), _state(row), count, str(again)))
    read = [(key, text) for key, text in rows.read() if key in due]
    return {"read": read, "write": write, "rousing": True}


def _row(text: bytes) -> Row:
    facts, _, state = text.partition(b"\n")
    expires, wake_at, waiting, known = facts.split()
    return Row(state if known == b"1" else None, int(expires), int(wake_at), waiting == b"1")


def _state(row: Row) -> str | bool:
    return False if row.state is None else row.state.decode()
