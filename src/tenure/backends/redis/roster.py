"""RedisRoster: which workers are alive."""

import msgspec

from tenure.backends.redis import notation
from tenure.backends.redis.connections import Word
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Scripts
from tenure.backends.upkeep import WorkerRecord
from tenure.clock import MICROSECOND

_worker = msgspec.json.Decoder(WorkerRecord).decode


class RedisRoster:
    """Workers by the time until which they said that they live."""

    def __init__(self, scripts: Scripts, names: Names) -> None:
        self._scripts = scripts
        self._key = names.workers

    def greet(self, worker: WorkerRecord, seconds: float) -> None:
        words: list[Word] = [worker.id, round(seconds * MICROSECOND), notation.text(worker)]
        patiently(lambda: self._scripts.run("greet", self._key, words))

    def part(self, id: str) -> None:
        patiently(lambda: self._scripts.run("part", self._key, [id]))

    def workers(self) -> list[WorkerRecord]:
        records = [_worker(record) for record in self._scripts.run("workers", self._key) if record]
        return sorted(records, key=lambda worker: worker.started_at)
