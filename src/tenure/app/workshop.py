"""Workshop: makes workers out of an app's parts."""

import os
import secrets
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from tenure.app.shelves import Shelves
from tenure.backends.contract import Backend, InProcess
from tenure.backends.ledger import Ledgered
from tenure.backends.upkeep import LaneRecord, WorkerRecord
from tenure.clock import Clock
from tenure.definition.queues import Queues
from tenure.errors import BackendError, SettingsError
from tenure.events import Listeners
from tenure.execution.children.process import Child
from tenure.execution.runners.children import ChildrenRunner
from tenure.execution.runners.contract import Runner
from tenure.execution.runners.inline import InlineRunner
from tenure.execution.runners.wear import Wear
from tenure.guards.store import Store
from tenure.redaction import Redactor
from tenure.settings import Settings
from tenure.worker.bookkeeper import Bookkeeper
from tenure.worker.chronicler import Chronicler
from tenure.worker.dated import Dated
from tenure.worker.execution_log import ExecutionLog
from tenure.worker.hooks import QueueHooks
from tenure.worker.janitor import Janitor
from tenure.worker.lane import Lane
from tenure.worker.pace import Pace
from tenure.worker.pipeline import Pipeline
from tenure.worker.presence import Presence
from tenure.worker.roles import Role
from tenure.worker.terms import Terms
from tenure.worker.worker import Worker

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
    store: Store

    def worker(
        self, lanes: Sequence[Lane], terms: Terms, location: str | None, companions: Iterable[Role] = ()
    ) -> Worker:
        """`location` is where child processes import the app from; `companions` are roles besides the usual ones."""
        name, started = identity(), self.clock.now()

        def describe() -> WorkerRecord:
            live_at, live = pace.live() if pace else (0, {})
            return WorkerRecord(
                id=name,
                host=socket.gethostname(),
                pid=os.getpid(),
                queues=terms.queues,
                runner=", ".join(dict.fromkeys(lane.runner for lane in lanes)),
                concurrency=sum(lane.concurrency for lane in lanes),
                started_at=started,
                seen_at=self.clock.now(),
                jobs=worker.jobs(),
                counts={status.value: count for status, count in list(worker.tally.items())},
                lanes=tuple(map(_record, lanes)),
                rates=pace.rates() if pace else {},
                live=live,
                live_at=live_at,
                handlers=self.pipeline.handlers,
                kids=self.pipeline.kids,
            )

        roles: list[Role] = [self.janitor(), self._hooks(terms.queues, name), *companions]
        shelves = Shelves(self.backend, self.store)
        with suppress(BackendError):  # who keeps no roster
            roles.append(Presence(shelves.roster, describe))
        listeners = Listeners(self.listeners)
        pace: Pace | None = None
        with suppress(BackendError):
            bookkeeper = Bookkeeper(shelves.books, self.clock, name)
            pace = Pace(self.backend, shelves.roster, self.clock, bookkeeper.ended)
            listeners.add(bookkeeper)
            roles.append(bookkeeper)
        manned = [(lane, self._runner(lane, terms, location)) for lane in lanes]
        worker = Worker(self.backend, manned, terms, self.pipeline, listeners, name, roles)
        if shelves.chronicle is not None:
            worker.remember(Chronicler(shelves.chronicle, self.clock))
        if self.settings.execution_log is not None:
            worker.record(self._execution_log(self.settings.execution_log))
        return worker

    def _execution_log(self, pattern: str) -> ExecutionLog:
        file, redactor = Dated(pattern, self.settings.log_keep), Redactor(self.settings.sensitive)
        return ExecutionLog(file, self.clock, redactor, self.settings.max_output)

    def janitor(self) -> Janitor:
        kept = {state: days * DAY for state, days in msgspec.structs.asdict(self.settings.retention).items()}
        ledger = next((place.ledger for place in (self.backend, self.store) if isinstance(place, Ledgered)), None)
        shelves = Shelves(self.backend, self.store)
        return Janitor(self.backend, self.clock, kept, self.store, ledger, shelves.chronicle)

    def _hooks(self, queues: Sequence[str], worker: str) -> QueueHooks:
        limits = (self.settings.refresh_interval, self.settings.hook_timeout)
        return QueueHooks(self.queues.classes(queues), worker, *limits)

    def _runner(self, lane: Lane, terms: Terms, location: str | None) -> Runner:
        wear = Wear(self.settings.recycle_after, self.settings.max_memory)
        if lane.runner == "inline":
            return InlineRunner(self.clock, None if terms.is_bounded or wear == Wear() else wear)
        if isinstance(self.backend, InProcess):
            raise SettingsError(
                f"the {lane.runner!r} runner cannot work on a backend that lives in this process: what its children "
                "enqueue would be lost with them; choose the runner inline, or a backend that processes share, "
                "such as sqlite:///jobs.db"
            )
        command = [sys.executable, "-m", "tenure.cli.child", _importable(location, lane.runner), lane.runner]
        size, slots = (lane.concurrency, 1) if lane.runner == "process" else (1, lane.concurrency)
        arguments = [str(os.getpid()), str(slots)]
        return ChildrenRunner(lambda: Child([*command, *arguments], os.environ, slots), size, slots, self.clock, wear)


def _importable(location: str | None, runner: str) -> str:
    if location and not location.startswith("__main__:"):
        return location
    found = "nothing says where it is" if location is None else f"{location!r} is this very script"
    raise SettingsError(
        f"the {runner!r} runner has child processes import the app, and {found}; "
        'put the app into a module and name it with location="module:attr" or the setting app, '
        "or choose the runner inline, which runs jobs in this process"
    )


def _record(lane: Lane) -> LaneRecord:
    return LaneRecord(name=lane.name, queues=lane.queues, runner=lane.runner, concurrency=lane.concurrency)


def identity() -> str:
    """A name for a worker in this process, never used twice."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"
