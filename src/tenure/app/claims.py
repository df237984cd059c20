"""Claims: jobs leased one at a time for whoever runs them, and what becomes of them, by the verbs that workers use."""

from collections.abc import Sequence

from tenure.app.claimed import ClaimedJob
from tenure.app.workshop import Workshop
from tenure.backends.contract import Abandon, Ack, Lease, Nack, Park, Parking, Verdict
from tenure.definition.failure import from_exception
from tenure.errors import InvalidJob
from tenure.events import Enqueued, Event, Leased, LeaseLost, Settled
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome
from tenure.worker.verdict import settlement


class Claims:
    """What is held, by the ids of jobs; guards are taken and given back as ever."""

    def __init__(self, workshop: Workshop, seconds: float) -> None:
        """`seconds` is how long a claim lasts without being renewed."""
        self._shop = workshop
        self._backend, self._pipeline, self._warden = workshop.backend, workshop.pipeline, workshop.pipeline.warden
        self._seconds = seconds
        self._held: dict[str, ClaimedJob] = {}

    def take(self, queues: list[str], worker: str) -> ClaimedJob | None:
        """The next job that may run; what may not is settled on the way."""
        while leases := self._lease(queues):
            self.tell(Leased(leases[0].queue, (leases[0].id,)))
            attempts, verdicts = self._pipeline.admit(leases)
            for verdict in verdicts:
                self._settle(verdict)
            if attempts and (job := self._opened(attempts[0], worker)):
                self._held[job.id] = job
                return job
        return None

    def conclude(self, job: ClaimedJob, attempt: Attempt, outcome: Outcome) -> tuple[Verdict, bool]:
        """What follows from an outcome, and whether it was still ours to say."""
        if self._held.get(job.id) is not job:
            raise InvalidJob(f"job {job.id!r} is not claimed here: it was settled, or its claim was lost")
        self._pipeline.worker = job.worker
        verdict = self._pipeline.conclude(attempt, outcome)
        is_ours = self._settle(verdict)
        del self._held[job.id]  # not before: who could not reach the backend tries again
        return verdict, is_ours

    def renew(self, worker: str) -> None:
        held = self._of(worker)
        lost = self._backend.renew(held, seconds=self._seconds) if held else []
        lost += self._warden.keep([lease for lease in held if lease not in lost])
        self._warden.lose(lost)
        for lease in lost:
            self._held.pop(lease.id, None)
        if lost:
            self.tell(LeaseLost(tuple(lease.id for lease in lost), "renew"))

    def hand_back(self, worker: str) -> None:
        """To their place, at no cost."""
        for lease in self._of(worker):
            del self._held[lease.id]
            self._settle(Nack(lease=lease, reason="unstarted"))

    def tell(self, event: Event) -> None:
        self._shop.listeners.emit(event)

    def _of(self, worker: str) -> list[Lease]:
        return [job.lease for job in self._held.values() if job.worker == worker]

    def _lease(self, queues: list[str]) -> Sequence[Lease]:
        """From the first queue that may be leased from and has any."""
        room, _ = self._warden.room(queues)
        for portion, _ in room:
            if leases := self._backend.lease(portion, limit=1, seconds=self._seconds):
                return leases
        return ()

    def _opened(self, attempt: Attempt, worker: str) -> ClaimedJob | None:
        """The job with its payload; one whose payload does not fit is dead, as in every worker."""
        now = self._shop.clock.now()
        try:
            value = attempt.handler.unpack(attempt.envelope.payload, attempt.envelope.payload_version)
        except Exception as error:  # declared types run code of their own while they are built
            failure = from_exception(error, now, attempt.number)
            unfit = Outcome(kind="unfit", started=now, seconds=0.0, failure=failure)
            self._settle(self._pipeline.conclude(attempt, unfit))
            return None
        return ClaimedJob(attempt, value, worker, now)

    def _settle(self, verdict: Verdict) -> bool:
        """In the order that loses nothing: guards elsewhere, jobs that follow, the job itself; whether it was ours."""
        (verdict,) = self._warden.attach([verdict])
        self._warden.mark([verdict])
        if isinstance(verdict, (Ack, Abandon)) and verdict.follow:
            new = set(self._backend.put(verdict.follow))
            for message in verdict.follow:
                if message.id in new:
                    self.tell(Enqueued(message.queue, message.handler, (message.id,)))
        lost = self._apply(verdict)
        self.tell(LeaseLost((verdict.lease.id,), "settle") if lost else Settled((settlement(verdict),)))
        return not lost

    def _apply(self, verdict: Verdict) -> list[Lease]:
        match verdict:
            case Ack():
                return self._backend.ack([verdict])
            case Nack():
                return self._backend.nack([verdict])
            case Abandon():
                return self._backend.abandon([verdict])
            case Park():
                return self._backend.park([verdict]) if isinstance(self._backend, Parking) else []
