"""Workshop: makes workers out of an app's parts."""

import os
import secrets
import socket
import sys
from dataclasses import dataclass
from typing import Literal

import msgspec

from tenure.backends.contract import Backend, Roster, WorkerRecord
from tenure.clock import Clock
from tenure.definition.queues import Queues
from tenure.errors import SettingsError
from tenure.events import Listeners
from tenure.execution.children.process import Child
from tenure.execution.runners.children import ChildrenRunner
from tenure.execution.runners.contract import Runner
from tenure.execution.runners.inline import InlineRunner
from tenure.execution.runners.wear import Wear
from tenure.settings import Settings
from tenure.worker.hooks import QueueHooks
from tenure.worker.janitor import Janitor
from tenure.worker.lane import Lane
from tenure.worker.pipeline import Pipeline
from tenure.worker.presence import Presence
from tenure.worker.roles import Role
from tenure.worker.worker import Worker

RunnerKind = Literal["inline", "process", "threads", "event_loop"]
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Workshop:
    """What every worker of an app on one backend has in common."""

    settings: Settings
    clock: Clock
    listeners: Listeners
    queues: Queues
    backend: Backend
    pipeline: Pipeline

    def worker(self, lane: Lane, kind: RunnerKind, concurrency: int, location: str | None) -> Worker:
        name, started = identity(), self.clock.now()

        def describe() -> WorkerRecord:
            return WorkerRecord(
                id=name,
                host=socket.gethostname(),
                pid=os.getpid(),
                queues=lane.queues,
                runner=kind,
                concurrency=concurrency,
                started_at=started,
                seen_at=self.clock.now(),
                jobs=worker.jobs(),
                counts={status.value: count for status, count in worker.tally.items()},
            )

        companions: list[Role] = [self._janitor(), self._hooks(lane, name)]
        if isinstance(self.backend, Roster):
            companions.append(Presence(self.backend, describe))
        runner = self._runner(kind, concurrency, location)
        worker = Worker(self.backend, lane, self.pipeline, runner, self.listeners, name, companions)
        return worker

    def _janitor(self) -> Janitor:
        kept = {state: days * DAY for state, days in msgspec.structs.asdict(self.settings.retention).items()}
        return Janitor(self.backend, self.clock, kept)

    def _hooks(self, lane: Lane, worker: str) -> QueueHooks:
        return QueueHooks(self.queues.classes(lane.queues), worker, self.settings.refresh_interval)

    def _runner(self, kind: RunnerKind, concurrency: int, location: str | None) -> Runner:
        if kind == "inline":
            if concurrency > 1:
                raise SettingsError("the inline runner runs one job at a time; choose another runner for concurrency")
            return InlineRunner(self.clock)
        if location is None:
            raise SettingsError(
                f'the {kind!r} runner needs to know where its children find the app: location="module:app"'
            )
        size, slots = (concurrency, 1) if kind == "process" else (1, concurrency)
        command = [sys.executable, "-m", "tenure.cli.child", location, kind, str(os.getpid()), str(slots)]
        wear = Wear(self.settings.recycle_after, self.settings.max_memory)
        return ChildrenRunner(lambda: Child(command, os.environ, slots), size, slots, self.clock, wear)


def identity() -> str:
    """A name for a worker in this process, never used twice."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"
