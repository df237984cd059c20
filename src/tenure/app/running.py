"""Running: wires what runs the jobs of an app: for workers, for loops of one's own, and for jobs that run at once."""

from collections.abc import Callable
from dataclasses import dataclass

from tenure.app.sealer import Channel, Sealer
from tenure.app.stores import Stores, warden_of
from tenure.app.workshop import Workshop
from tenure.backends.contract import Backend, Lease, Verdict
from tenure.clock import Clock
from tenure.definition.builder import JobBuilder
from tenure.definition.queues import Queues
from tenure.definition.registry import Registry
from tenure.definition.retry import RetryPolicy
from tenure.errors import SettingsError, TenureError
from tenure.events import Listeners
from tenure.execution.attempt import Performer
from tenure.execution.deadline import deadline_here
from tenure.settings import Settings
from tenure.wire.envelope import Follower
from tenure.worker.outcomes import log_outcomes
from tenure.worker.pipeline import Defaults, Pipeline
from tenure.worker.rules import Rules
from tenure.worker.warden import Warden


@dataclass(frozen=True, slots=True)
class Running:
    """The parts of an app that an attempt needs."""

    settings: Settings
    clock: Clock
    registry: Registry
    queues: Queues
    listeners: Listeners
    stores: Stores
    sealer: Sealer
    rules: Rules
    retry: RetryPolicy
    define: Callable[[str], JobBuilder]

    def workshop(self, channel: Channel, lease: float | None = None) -> Workshop:
        """What workers on this backend have in common; what they hold lasts as long as a `lease`."""
        pipeline = self.pipeline(channel, self.warden(channel.backend, lease))
        store = self.stores.of(channel.backend)
        return Workshop(self.settings, self.clock, self.listeners, self.queues, channel.backend, pipeline, store)

    def run_now(self, lease: Lease, channel: Channel) -> Verdict:
        """For the sync backend: the path a worker takes, without the worker."""
        verdict = self._verdict_now(lease, channel)
        log_outcomes([verdict])
        return verdict

    def warden(self, backend: Backend, lease: float | None = None) -> Warden:
        store, url = self.stores.of(backend), self.settings.url
        return warden_of(backend, store, self.rules, lease or self.settings.lease, url)

    def pipeline(self, channel: Channel, warden: Warden) -> Pipeline:
        defaults = Defaults(
            retry=self.retry,
            timeout=self.settings.default_timeout,
            patience=self.settings.unknown_patience,
            on_dead=self._on_dead(channel),
            max_output=self.settings.max_output,
        )
        return Pipeline(channel.wire, self.registry, self.clock, defaults, warden=warden)

    def _on_dead(self, channel: Channel) -> Follower | None:
        if self.settings.on_dead is None:
            return None
        try:
            return self.sealer.follower(self.define(self.settings.on_dead).build(), channel)
        except TenureError as error:
            raise SettingsError(f"the setting on_dead names a job that cannot be enqueued: {error}") from error

    def _verdict_now(self, lease: Lease, channel: Channel) -> Verdict:
        warden = self.warden(channel.backend)
        pipeline = self.pipeline(channel, warden)
        attempts, verdicts = pipeline.admit([lease])
        if verdicts:
            return verdicts[0]
        with Performer(self.clock, deadline_here()) as performer:
            verdict = pipeline.conclude(attempts[0], performer.perform(attempts[0]))
        warden.mark(warden.attach([verdict]))
        return verdict
