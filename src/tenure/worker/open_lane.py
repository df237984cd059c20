"""OpenLane: a lane at work, with a leaser that fills its inbox and a runner that empties it."""

from collections.abc import Callable, Sequence

from tenure.backends.contract import ON_REQUEST, Ack, Lease, Nack
from tenure.definition.progress import Progress
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome
from tenure.execution.runners.contract import Runner
from tenure.worker.inbox import GUARDED, Inbox
from tenure.worker.lane import Lane
from tenure.worker.leaser import Leaser
from tenure.worker.shared import Shared
from tenure.worker.verdict import UNSTARTED


class OpenLane:
    """`run` serves in the calling thread until the lane is closed and empty."""

    def __init__(self, lane: Lane, runner: Runner, shared: Shared, on_answer: Callable[[], None]) -> None:
        """`on_answer` is called once, when the backend has answered this lane's first lease."""
        self._queues = frozenset(lane.queues)
        self._runner = runner
        self._pipeline = shared.pipeline
        self._settler = shared.settler
        self._inbox = Inbox(runner.concurrency, on_idle=self._idle, admit=self._admit, on_low=self._low)
        self.leaser = Leaser(lane, self._inbox, shared, on_answer)

    def ticks(self) -> tuple[float | None, ...]:
        """When its loops last came round."""
        return self.leaser.ticked, self._runner.ticked

    def run(self) -> None:
        self._runner.serve(self._inbox, self._done)

    def stop(self) -> None:
        """Lease no more, and close; safe in a signal handler."""
        self.leaser.stop()

    def interrupt(self) -> None:
        """Have what runs handed back; may raise, in the main thread."""
        self._runner.stop_now()

    def reload(self) -> bool:
        return self._runner.reload()

    def hand_back(self, age: float) -> None:
        """What has waited this long without starting goes back to its place."""
        for lease in self._inbox.take_back(age):
            self._settler.settle(Nack(lease=lease, reason=UNSTARTED))

    def lose(self, leases: Sequence[Lease]) -> None:
        """Forget, and stop where possible, what is ours among these: others have them now."""
        ours = [lease for lease in leases if lease.queue in self._queues]
        if ours:
            self._inbox.discard(ours)
            self._runner.lose(ours)

    def cancel(self, leases: Sequence[Lease]) -> None:
        """End what is ours among these and has not started; interrupt the rest."""
        ours = [lease for lease in leases if lease.queue in self._queues]
        if ours:
            for lease in self._inbox.discard(ours):
                self._settler.settle(Ack(lease=lease, state="cancelled", reason=ON_REQUEST))
            self._runner.cancel(ours)

    def progress(self) -> Sequence[tuple[Lease, Progress]]:
        return self._runner.progress()

    def close(self) -> None:
        """Nothing more will be leased: what has not started goes back."""
        self.leaser.ticked = None
        self.hand_back(0.0)
        self._inbox.close()

    def _admit(self, leases: Sequence[Lease]) -> list[Attempt]:
        attempts, verdicts = self._pipeline.admit(leases)
        if self._pipeline.warden.is_asked:
            self._inbox.at_once = GUARDED
        for verdict in verdicts:
            self._settler.settle(verdict)
        return attempts

    def _done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.kind != "lost":  # a lost lease is not ours to settle
            self._settler.settle(self._pipeline.conclude(attempt, outcome))
        self._inbox.finished(outcome.seconds)

    def _low(self) -> None:
        self.leaser.room.set()

    def _idle(self) -> None:
        self._settler.hurry()
        self.leaser.room.set()
