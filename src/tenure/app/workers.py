"""Builds workers from the settings and the parts of an app."""

import logging
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import msgspec
from msgspec.structs import asdict

from tenure.app.open_backends import OpenBackend, Sealer
from tenure.app.stores import Stores, backend_name
from tenure.backends.contract import Backend, Parts
from tenure.backends.messages import Abandon, Ack, Lease, Message, Verdict
from tenure.backends.records import JobRecord
from tenure.backends.sync import SyncBackend
from tenure.clock import Clock
from tenure.definition.builder import JobBuilder
from tenure.definition.handler import Registry
from tenure.definition.queues import Queues
from tenure.definition.retry import Policy
from tenure.errors import JobFailed, SettingsError, TenureError
from tenure.events import JOB_STATES, Listeners
from tenure.execution.attempt import Performer
from tenure.execution.deadline import deadline_for_this_thread
from tenure.execution.inline import InlineRunner
from tenure.execution.parent.child_process import ChildProcess
from tenure.execution.parent.runner import ChildProcessRunner
from tenure.execution.runner import MEGABYTE, RecycleLimits, Runner
from tenure.guards.store import Store
from tenure.redaction import Redactor
from tenure.settings import Settings
from tenure.suggestions import nearest
from tenure.wire.envelope import Follower
from tenure.worker.archive_writer import ArchiveWriter, inline_record, record_of
from tenure.worker.description import WorkerDescription
from tenure.worker.guard_holder import GuardHolder
from tenure.worker.guard_rules import GuardRules
from tenure.worker.heartbeat import Heartbeat, Throughput
from tenure.worker.janitor import Janitor
from tenure.worker.lane import Lane, RunnerKind, WorkerOptions, arrange_lanes
from tenure.worker.logs import DatedLogFile, ExecutionLog, log_outcomes
from tenure.worker.pipeline import JobDefaults, Pipeline
from tenure.worker.queue_hooks import QueueHooks
from tenure.worker.roles import OutageLog, Role
from tenure.worker.stats_recorder import StatsRecorder
from tenure.worker.worker import Worker

logger = logging.getLogger(__name__)

DAY = 86_400.0
_OWN_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")  # only this process reports to its supervisor


@dataclass(frozen=True, slots=True)
class WorkerBuilder:
    """Builds workers, manual workers, and the pipeline for jobs that run at once."""

    settings: Settings
    clock: Clock
    registry: Registry
    queues: Queues
    listeners: Listeners
    stores: Stores
    sealer: Sealer
    rules: GuardRules
    retry: Policy
    define: Callable[[str], JobBuilder]

    def for_backend(self, opened: OpenBackend, lease: float | None = None) -> "BackendWorkers":
        """What the workers on one backend share; guards are held for `lease` seconds unless renewed."""
        pipeline = self.pipeline(opened, self.guard_holder(opened.backend, lease))
        store, parts = self.stores.guards(opened.backend), self.stores.parts(opened.backend)
        return BackendWorkers(
            self.settings, self.clock, self.listeners, self.queues, opened.backend, pipeline, store, parts
        )

    def run_now(self, lease: Lease, opened: OpenBackend) -> Verdict:
        """Run one job in the calling thread, as a worker would; the sync backend uses this."""
        verdict = self._verdict_now(lease, opened)
        log_outcomes([verdict])
        archive = self.stores.parts(opened.backend).archive
        if archive is not None and (record := record_of(verdict, self.clock.now())):
            archive.save([record])
        return verdict

    def run_inline(self, message: Message, opened: OpenBackend) -> JobRecord:
        """Run the job of an inline tick in the calling thread, then the jobs that follow it; returns its record.

        A job that fails is no dead letter, so it is neither logged as one nor reported to the job of `on_dead`.
        """
        runner = SyncBackend(self.clock)
        runner.runs_with(lambda lease: self._verdict_now(lease, opened, on_dead=False))
        verdict = runner.run(message)
        for follower in verdict.follow if isinstance(verdict, (Ack, Abandon)) else ():
            try:
                opened.backend.put([follower])
            except JobFailed as error:
                logger.warning("a job that follows the inline job %s failed: %s", message.id, error)
        return inline_record(verdict, self.clock.now())

    def guard_holder(self, backend: Backend, lease: float | None = None) -> GuardHolder:
        """The guard holder of this backend's jobs; jobs are parked where the backend and the store are one."""
        store = self.stores.guards(backend)
        is_backend = store is backend.guards
        parking = backend.parking if is_backend or backend.guards is None else None
        name = backend_name(backend, store, self.settings.url)
        seconds = lease or self.settings.lease
        return GuardHolder(store, self.rules, seconds, is_backend=is_backend, parking=parking, place=name)

    def pipeline(self, opened: OpenBackend, guards: GuardHolder, *, on_dead: bool = True) -> Pipeline:
        defaults = JobDefaults(
            retry=self.retry,
            timeout=self.settings.default_timeout,
            unknown_timeout=self.settings.unknown_timeout,
            on_dead=self._on_dead(opened) if on_dead else None,
            max_output=self.settings.max_output,
            suspect_after=self.settings.suspect_after,
        )
        return Pipeline(opened.wire, self.registry, self.clock, defaults, guards=guards)

    def _on_dead(self, opened: OpenBackend) -> Follower | None:
        if self.settings.on_dead is None:
            return None
        try:
            return self.sealer.follower(self.define(self.settings.on_dead).build(), opened)
        except TenureError as error:
            raise SettingsError(f"the setting on_dead names a job that cannot be enqueued: {error}") from error

    def _verdict_now(self, lease: Lease, opened: OpenBackend, *, on_dead: bool = True) -> Verdict:
        guards = self.guard_holder(opened.backend)
        pipeline = self.pipeline(opened, guards, on_dead=on_dead)
        attempts, verdicts = pipeline.admit([lease])
        if verdicts:
            return verdicts[0]
        with Performer(self.clock, deadline_for_this_thread()) as performer:
            verdict = pipeline.conclude(attempts[0], performer.perform(attempts[0]))
        guards.mark(guards.attach([verdict]))
        return verdict


@dataclass(frozen=True, slots=True)
class BackendWorkers:
    """What all workers on one backend share."""

    settings: Settings
    clock: Clock
    listeners: Listeners
    queues: Queues
    backend: Backend
    pipeline: Pipeline
    store: Store
    parts: Parts

    def worker(
        self, lanes: Sequence[Lane], options: WorkerOptions, location: str | None, companions: Iterable[Role] = ()
    ) -> Worker:
        """A worker; child processes import the app from `location`, `companions` are additional roles."""
        name, started = new_worker_id(), self.clock.now()
        if not options.only_suspects:
            self._warn_of_typos(options.queues)
        outage = self.pipeline.guards.outage
        roles: list[Role] = [self.janitor(outage), self._hooks(options.queues, name), *companions]
        listeners = Listeners(self.listeners)
        throughput: Throughput | None = None
        if self.parts.stats is not None:
            stats = StatsRecorder(self.parts.stats, self.clock, name, outage)
            listeners.add(stats)
            roles.append(stats)
            if self.parts.workers is not None:
                throughput = Throughput(self.backend.queues, self.parts.workers, self.clock, stats.ended, outage)
        lanes_and_runners = [(lane, self._runner(lane, options, location)) for lane in lanes]
        worker = Worker(self.backend, lanes_and_runners, options, self.pipeline, listeners, name, roles)
        if self.parts.workers is not None:
            description = WorkerDescription(
                worker=worker,
                lanes=lanes,
                pipeline=self.pipeline,
                throughput=throughput,
                started_at=started,
                max_memory=round((self.settings.max_memory or 0) * MEGABYTE),
            )
            forget = self.pipeline.guards.forget_drain
            worker.add_role(Heartbeat(self.parts.workers, description.record, outage, forget))
        if _is_importable(location) and not self.backend.in_process:
            worker.run_suspects_in_processes(partial(self._start_suspects, str(location)), self.settings.stop_grace)
        if self.parts.archive is not None:
            worker.set_archive_writer(ArchiveWriter(self.parts.archive, self.clock))
        if self.settings.execution_log is not None:
            worker.set_execution_log(self._execution_log(self.settings.execution_log))
        return worker

    def _warn_of_typos(self, queues: Iterable[str]) -> None:
        for queue in queues:
            guess = None if self.queues.find(queue) else self.queues.nearest(queue)
            if guess is not None and queue not in stored_queues(self.parts):
                logger.warning(
                    "this worker serves the queue %r, which no handler, setting or stored job names; did you mean %r?",
                    queue,
                    guess,
                )

    def _start_suspects(self, location: str, lane: Lane) -> "subprocess.Popen[bytes]":
        """Start a process that runs the suspects of this lane, one at a time, until none is left.

        It has its own session and does not end with this process: an end of this process is no crash of the suspect.
        """
        command = [sys.executable, "-m", "tenure", "--app", location, "--log-format", self.settings.log_format, "work"]
        options = ["--suspects", "--quiet", "--runner", lane.runner, "--stop-grace", str(self.settings.stop_grace)]
        return subprocess.Popen(
            [*command, *options, "--", *lane.queues],
            env={name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _execution_log(self, pattern: str) -> ExecutionLog:
        file, redactor = DatedLogFile(pattern, self.settings.log_keep), Redactor(self.settings.sensitive)
        return ExecutionLog(file, self.clock, redactor, self.settings.max_output)

    def janitor(self, outage: OutageLog | None = None) -> Janitor:
        retention = msgspec.structs.asdict(self.settings.retention)
        payload_bytes = retention.pop("payload_bytes")
        kept = {kind: days * DAY for kind, days in retention.items()}
        return Janitor(self.parts, self.clock, kept, payload_bytes, self.store, outage)

    def _hooks(self, queues: Sequence[str], worker: str) -> QueueHooks:
        limits = (self.settings.refresh_interval, self.settings.hook_timeout)
        return QueueHooks(self.queues.classes(queues), worker, *limits)

    def _runner(self, lane: Lane, options: WorkerOptions, location: str | None) -> Runner:
        recycle = RecycleLimits(self.settings.recycle_after, self.settings.max_memory)
        if lane.runner == "inline":
            return InlineRunner(self.clock, None if options.is_bounded or recycle == RecycleLimits() else recycle)
        if self.backend.in_process:
            raise SettingsError(
                f"the {lane.runner!r} runner cannot work on a backend that lives in this process: jobs that its child "
                "processes enqueue would be lost; choose the runner inline, or a backend that processes share, "
                "such as sqlite:///jobs.db"
            )
        command = [sys.executable, "-m", "tenure.cli.process.child", _importable(location, lane.runner), lane.runner]
        size, slots = (lane.concurrency, 1) if lane.runner == "process" else (1, lane.concurrency)
        arguments = [str(os.getpid()), str(slots)]

        def start() -> ChildProcess:
            environment = {**os.environ, "TENURE_LOG_FORMAT": self.settings.log_format}  # an option may have set it
            return ChildProcess([*command, *arguments], environment, slots)

        return ChildProcessRunner(start, size, slots, self.clock, recycle)


def _is_importable(location: str | None) -> bool:
    return bool(location) and not str(location).startswith("__main__:")


def _importable(location: str | None, runner: str) -> str:
    if location and _is_importable(location):
        return location
    found = "its location is not known" if location is None else f"{location!r} is the running script"
    raise SettingsError(
        f"the {runner!r} runner has child processes import the app, and {found}; "
        'put the app into a module and name it with location="module:attr" or the setting app, '
        "or choose the runner inline, which runs jobs in this process"
    )


def new_worker_id() -> str:
    """A new id for a worker in this process."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"


def queues_of(settings: Settings) -> Sequence[str]:
    """All queues that the settings assign to workers."""
    if not settings.lanes:
        return settings.queues
    return [queue for lane in settings.lanes.values() for queue in lane.queues]


def stored_queues(parts: Parts) -> set[str]:
    """The queues that have jobs in any state, as far as the backend can tell; counting the jobs would take longer."""
    return set() if parts.jobs is None else {queue for state in JOB_STATES for queue in parts.jobs.queues_with(state)}


def find_lanes(wanted: Iterable[str | Lane], settings: Settings, queues: Queues) -> list[Lane]:
    """Lanes, given by name or as values, in the order in which a worker serves them."""
    found = [_configured(each, settings) if isinstance(each, str) else each for each in wanted]
    return arrange_lanes([_resolved(lane, queues) for lane in found])


def _configured(name: str, settings: Settings) -> Lane:
    if name not in settings.lanes:
        known = f"known ones: {', '.join(settings.lanes)}" if settings.lanes else "the settings have none"
        guess = nearest(name, settings.lanes)
        raise SettingsError(f"there is no lane {name!r}; {f'did you mean {guess!r}?' if guess else known}")
    values = asdict(settings.lanes[name])
    return Lane(**{**values, "name": name, "runner": cast("RunnerKind", values["runner"])})


def _resolved(lane: Lane, queues: Queues) -> Lane:
    return Lane(
        queues=tuple(map(queues.resolve, lane.queues)),
        weights={queues.resolve(queue): weight for queue, weight in lane.weights.items()},
        runner=lane.runner,
        concurrency=lane.concurrency,
        name=lane.name,
    )
