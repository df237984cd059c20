"""RedisGuards: the guards and the jobs that wait for them, beside the queues.

A change is decided here, on rows that were read. A script applies it if the rows are still the same; otherwise it is
decided again. With a settlement, the script that settles applies it. One of several changes always succeeds, so all
succeed in time.
"""

import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from tenure.backends.redis.connections import RedisClient, with_retries
from tenure.backends.redis.scripts import Call, KeyNames, Scripts
from tenure.clock import MICROSECOND
from tenure.guards.states import WAKE_GRACE_MICROSECONDS, Hold, plan_wake
from tenure.guards.store import Change, Row, apply_changes, keep_leased, lapsed_in

_text = msgspec.json.Encoder().encode
_TRIES_WITHOUT_DELAY = 3
_ROW = re.compile(rb"([0-9]{1,18}) ([0-9]{1,18}) ([0-9]) ([0-9])\n(.*)", re.DOTALL)
_SCAN_COUNT = 1000


class GuardRows:
    """Guard rows as they were read; a script checks that their texts have not changed."""

    def __init__(self, now: int, texts: Mapping[str, bytes]) -> None:
        self.now = now
        self.texts = texts
        self.rows = {key: _row(text) for key, text in texts.items() if text}

        self.kept: dict[str, Row] = {}

    def read(self) -> list[tuple[str, str]]:
        return [(key, text.decode()) for key, text in self.texts.items()]


class RedisGuards:
    """The guard store of a Redis backend; it also wakes parked jobs and finds the holders of unique texts."""

    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames) -> None:
        self._client = client
        self._scripts = scripts
        self._key = names.guards
        self._queue = names.queue
        self._uniques = names.uniques

    def change(self, changes: Sequence[Change]) -> list[Any]:
        for tries in itertools.count():
            rows = self.rows({key for change in changes for key in change.keys})
            answers, plan = plan_changes(changes, rows)
            if not plan["write"] or self._scripts.run("change", self._key, [_text(plan)]):
                return answers
            back_off_after(tries)
        raise AssertionError  # itertools.count has no end

    def read(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        rows = self.rows(keys)
        seen = {key: row.current(rows.now) for key, row in rows.rows.items()}
        return rows.now, {key: state for key, state in seen.items() if state is not None}

    def search(self, prefix: str, limit: int, after: str = "") -> tuple[int, dict[str, Row]]:
        """It reads the keys of all guards, because Redis does not order them."""
        names: set[str] = set()
        pattern, cursor = re.sub(r"([\\*?\[\]])", r"\\\1", prefix) + "*", b"0"
        while True:
            scan = partial(
                self._client.ask, "HSCAN", f"{self._key}:rows", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT
            )
            cursor, pairs = with_retries(scan)
            names.update(name.decode() for name in pairs[::2])
            if cursor == b"0":
                break
        ordered = sorted(name for name in names if name > after)
        rows, shown = self.rows(ordered[:limit]), dict[str, Row]()
        for start in range(limit, len(ordered) + limit, limit):
            shown.update(
                (key, row) for key, row in rows.rows.items() if row.waiting or row.current(rows.now) is not None
            )
            if len(shown) >= limit:
                break
            rows = self.rows(ordered[start : start + limit])  # some of the first have expired
        return rows.now, dict(islice(shown.items(), limit))

    def sweep(self, limit: int) -> int:
        swept: int = with_retries(lambda: self._scripts.run("sweep", self._key, [limit]))
        return swept

    def waiters(self, keys: Sequence[str], limit: int) -> dict[str, dict[str, int]]:
        found = {}
        for key in keys:
            read = partial(self._client.ask, "ZRANGE", f"{self._key}:waiters:{key}", 0, limit - 1)
            if members := with_retries(read):
                found[key] = dict(Counter(member.split(b"\n", 2)[1].decode() for member in members))
        return found

    def wake(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        if keys is None:
            waking = with_retries(lambda: self._scripts.run("waking", self._key, [limit]))
            keys = [key.decode() for key in waking]
        for tries in itertools.count():
            rows = self.rows(keys)
            due = sorted(key for key, row in rows.rows.items() if row.waiting and row.wake_at <= rows.now)[:limit]
            if not due:
                return {key: (row.wake_at - rows.now) / MICROSECOND for key, row in rows.rows.items() if row.waiting}
            if not self._scripts.run("change", self._key, [_text(_wake_plan(rows, due))]):
                back_off_after(tries)
        raise AssertionError

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        ids = with_retries(lambda: self._client.ask("HMGET", self._uniques, *uniques)) if uniques else []
        return {unique: id.decode() for unique, id in zip(uniques, ids, strict=True) if id}

    def rows(self, keys: Iterable[str]) -> GuardRows:
        named = sorted(set(keys))
        now, found = with_retries(lambda: self._scripts.run("rows", self._key, named))
        rows = GuardRows(int(now), {key: text or b"" for key, text in zip(named, found, strict=True)})
        if lapsed := lapsed_in(rows.rows, rows.now):
            rows.kept = keep_leased(rows.rows, self._leased(lapsed), rows.now)
        return rows

    def _leased(self, holds: Sequence[Hold]) -> set[tuple[str, int]]:
        """Those of these leases that are held. One that is not held never is again, so this is still true later."""
        calls: list[Call] = [
            ("leased", self._queue(hold.queue), [hold.id, hold.owner, hold.fence]) for hold in holds if hold.queue
        ]
        answers = with_retries(lambda: self._scripts.run_each(calls))
        return {(hold.id, hold.fence) for hold, held in zip(holds, answers, strict=True) if held}


def plan_changes(changes: Sequence[Change], rows: GuardRows) -> tuple[list[Any], dict[str, Any]]:
    """The answers to changes, and what a script must write if no row has changed meanwhile."""
    answers, written, wakes = apply_changes(changes, rows.rows, rows.now)
    again = str(rows.now + WAKE_GRACE_MICROSECONDS)
    write = [
        (key, str(row.expires), str(row.wake_at), _state(row), wakes.get(key, 0), again)
        for key, row in {**rows.kept, **written}.items()
    ]
    return answers, {"read": rows.read(), "write": write}


def back_off_after(tries: int) -> None:
    """Sleep after a few conflicts, longer after more, so that processes that want the same key do not stay in step."""
    if tries >= _TRIES_WITHOUT_DELAY:
        time.sleep(random.uniform(0, 0.001 * min(tries, 20)))  # noqa: S311 - jitter


def _wake_plan(rows: GuardRows, due: Sequence[str]) -> dict[str, Any]:
    write = []
    for key in due:
        row = rows.rows[key]
        count, again = plan_wake(row.state, rows.now)
        write.append((key, str(row.expires), str(row.wake_at), _state(row), count, str(again)))
    read = [(key, text) for key, text in rows.read() if key in due]
    return {"read": read, "write": write, "due": True}


def _row(text: bytes) -> Row:
    """A stored row; one that another program damaged counts as none, as for the function `read_row` of guards.lua."""
    found = _ROW.fullmatch(text)
    if found is None:
        return Row(None, 0, 0, False)
    expires, wake_at, waiting, known, state = found.groups()
    return Row(state if known == b"1" else None, int(expires), int(wake_at), waiting == b"1")


def _state(row: Row) -> str | bool:
    return False if row.state is None else row.state.decode()
