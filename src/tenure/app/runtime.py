"""Runtime: makes the workers and managers of an app, and runs single jobs in the calling thread.

The app imports this page at its first use: a process that only enqueues needs none of it, and it would take half of the
time of `from tenure import Tenure`.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tenure.app.gauges import GaugeReporter
from tenure.app.manual_worker import Manager
from tenure.app.notifications import check_jobs
from tenure.app.open_backends import OpenBackend, OpenBackends, Sealer
from tenure.app.override import location_for_children
from tenure.app.stores import Stores
from tenure.app.workers import WorkerBuilder, find_lanes, queues_of
from tenure.backends.ledger import Ledger
from tenure.backends.messages import Lease, Verdict
from tenure.backends.records import JobRecord
from tenure.cron.publisher import TickPublisher
from tenure.definition import given_job
from tenure.definition.job import Job
from tenure.definition.queues import QueueClass
from tenure.events import Listeners
from tenure.worker.lane import Lane, RunnerKind, WorkerOptions
from tenure.worker.worker import Worker

if TYPE_CHECKING:
    from tenure.app.tenure import Tenure


class Runtime:
    """Behind `Tenure.worker`, `Tenure.manager` and the jobs that run in the thread of their caller."""

    def __init__(
        self, app: "Tenure", backends: OpenBackends, stores: Stores, sealer: Sealer, listeners: Listeners
    ) -> None:
        self._app = app
        self._backends = backends
        self._stores = stores
        self._sealer = sealer
        self._listeners = listeners

    @property
    def _builder(self) -> WorkerBuilder:
        """Built at each use, because the command line changes some settings after the app was made."""
        app = self._app
        return WorkerBuilder(
            app.settings, app.clock, app.registry, app.queues, self._listeners, self._stores, self._sealer,
            app.guards.rules, app.retry, app.define,
        )  # fmt: skip

    def lane(
        self,
        queues: Sequence[str | QueueClass | type[QueueClass]],
        weights: dict[str, float],
        runner: RunnerKind,
        concurrency: int | None,
    ) -> Lane:
        """One lane for these queues, or for those of the settings."""
        names = self._app.queues
        served = tuple(
            names.resolve_or_add(given_job.check_queue(queue)) for queue in queues or queues_of(self._app.settings)
        )
        shares = {names.resolve(queue): weight for queue, weight in weights.items()}
        return Lane(queues=served, weights=shares, runner=runner, concurrency=concurrency or 0)

    def worker(self, lanes: Sequence[str | Lane], location: str | None, **terms: Any) -> Worker:
        """A worker for these lanes, given by name or as values; `terms` are more of the WorkerOptions."""
        app, place = self._app, self._backends.place
        found = find_lanes(lanes, app.settings, app.queues)
        check_jobs(app.notifications.jobs, app.define)
        app.registry.check_provided()
        options = WorkerOptions(
            queues=tuple(queue for lane in found for queue in lane.queues),
            lease_seconds=app.settings.lease,
            suspect_after=app.settings.suspect_after,
            **terms,
        )
        location = location_for_children(place, found, location or app.settings.app)
        workers = self._builder.for_backend(app.open_backend())
        place.workers.add(worker := workers.worker(found, options, location, app.cron.companions()))
        gauge = getattr(app.metrics, "gauge", None)
        if callable(gauge) and not options.only_suspects:
            worker.add_role(GaugeReporter(gauge, app))
        return worker

    def suspects_worker(self, lane: Lane, location: str | None) -> Worker:
        alone = dataclasses.replace(lane, concurrency=1)
        return self.worker([alone], location, burst=True, only_suspects=True)

    def manager(self, seconds: float) -> Manager:
        app = self._app
        workers = self._builder.for_backend(app.open_backend(), seconds)
        return Manager(workers, app.registry, app.define, app.dead_letters, seconds)

    def clean(self) -> dict[str, int]:
        return dict(self._builder.for_backend(self._app.open_backend()).janitor().clean())

    def publisher(self, ledger: Ledger) -> TickPublisher:
        opened = self._app.open_backend()
        seal = partial(self._sealer.message, opened=opened)
        runs = self._stores.parts(opened.backend).inline_runs
        return TickPublisher(opened.backend, ledger, seal, self._run_inline, runs, self._app.listeners)

    def run_now(self, lease: Lease, opened: OpenBackend) -> Verdict:
        return self._builder.run_now(lease, opened)

    def _run_inline(self, job: Job) -> JobRecord:
        opened = self._app.open_backend("sync://")
        return self._builder.run_inline(self._sealer.message(job, opened), opened)
