"""JobChanges: cancels, retries, reschedules and deletes many jobs, and foresees what that would do."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, Raw, structs

from tenure.app.client import RETRY_OF, AppClient, open_message
from tenure.app.producer import CHUNK, chunks
from tenure.backends.contract import required
from tenure.backends.messages import Message
from tenure.backends.records import JobRecord
from tenure.clock import Clock, to_microseconds
from tenure.definition.duration import Duration
from tenure.definition.job import new_id
from tenure.definition.job_handle import JobHandle
from tenure.definition.moment import When
from tenure.errors import MessageRejected, PayloadErased
from tenure.events import END_STATES, ENDED_WELL
from tenure.wire.envelope import Envelope, Follower, guard_names

WAITING = ("ready", "delayed", "parked")


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What was done, or would be done, with each job: `results` by id, `ids` by result, `counts` by result.

    `new_ids` has the handles of the new jobs that repeat ended ones, by the id of the old job.
    """

    results: dict[str, str]
    new_ids: dict[str, JobHandle[Any]] = field(default_factory=dict)
    dry_run: bool = False

    @property
    def ids(self) -> dict[str, tuple[str, ...]]:
        return {each: tuple(id for id, found in self.results.items() if found == each) for each in self.counts}

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(self.results.values()))


@dataclass(frozen=True, slots=True)
class JobChange:
    """One kind of change. Without a `state`, a filter selects jobs of `states` that are `wanted`.

    `foresee` tells the result for a job without changing it; `apply` changes up to a thousand jobs.
    """

    name: str
    states: tuple[str, ...]
    foresee: Callable[[JobRecord | None], str]
    apply: Callable[[list[str]], Mapping[str, str]]
    wanted: Callable[[JobRecord], bool] = bool


class JobChanges:
    """The changes that `app.jobs` can make; `new_ids` collects the jobs that a retry has made."""

    def __init__(self, client: AppClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.new_ids: dict[str, JobHandle[Any]] = {}

    def run(self, change: JobChange, ids: Iterable[str]) -> BulkResult:
        """Apply a change to jobs, a thousand per round trip."""
        results: dict[str, str] = {}
        for chunk in chunks(dict.fromkeys(map(str, ids)), CHUNK):
            results.update(change.apply(chunk))
        return BulkResult(results, self.new_ids)

    def cancel(self) -> JobChange:
        producer, backend = self._client.producer, self._client.backend
        return JobChange("cancel", (*WAITING, "leased"), _foresee_cancel, lambda ids: producer.cancel(ids, backend))

    def reschedule(self, delay: Duration, at: When | None) -> JobChange:
        producer, backend = self._client.producer, self._client.backend
        return JobChange(
            "reschedule", WAITING, _foresee_reschedule, lambda ids: producer.reschedule(ids, delay, at, backend)
        )

    def delete(self) -> JobChange:
        return JobChange("delete", END_STATES, _foresee_delete, self._delete)

    def retry(self, *, keep_idempotency_key: bool) -> JobChange:
        return JobChange(
            "retry",
            ("dead", "delayed"),
            self._foresee_retry,
            lambda ids: self._retry(ids, keep_idempotency_key=keep_idempotency_key),
            wanted=lambda job: job.state == "dead" or _has_failed(job),
        )

    def _delete(self, ids: Sequence[str]) -> Mapping[str, str]:
        parts = self._client.parts
        gone = set() if parts.dead_letters is None else set(parts.dead_letters.discard(ids))
        for place in (parts.jobs, parts.inline_runs):
            gone |= set() if place is None else set(place.delete(ids))
        return {id: "deleted" if id in gone else _foresee_delete(parts.find(id)) for id in ids}

    def _foresee_retry(self, job: JobRecord | None) -> str:
        if job is None or job.state not in ENDED_WELL:
            return _foresee_retry(job)
        whole = self._client.parts.find(job.id)  # jobs of a list have no message
        opened = "unknown" if whole is None else self._opened(whole)
        return opened if isinstance(opened, str) else "new"

    def _retry(self, ids: Sequence[str], *, keep_idempotency_key: bool) -> Mapping[str, str]:
        parts = self._client.parts
        replayed = set() if parts.dead_letters is None else set(parts.dead_letters.replay(ids))
        results: dict[str, str] = dict.fromkeys(ids, "unknown")
        results.update(dict.fromkeys(replayed, "replayed"))
        failed: list[str] = []
        for id in ids:
            job = None if id in replayed else parts.find(id)
            if job is None:
                continue
            results[id] = _foresee_retry(job)
            if results[id] == "rescheduled":
                failed.append(id)
            elif results[id] == "new":
                results[id] = self.repeat(job, keep_idempotency_key=keep_idempotency_key)
        if failed:
            moved = required(parts.control, "control of waiting jobs").reschedule(failed)
            results.update({id: "running" if moved[id] != "rescheduled" else "rescheduled" for id in failed})
        return results

    def repeat(self, job: JobRecord, *, keep_idempotency_key: bool = False, payload: bytes | None = None) -> str:
        """Enqueue the message of an ended job again, as a new job, with its own payload or with another one.

        The result is `new`, `duplicate`, `erased` or `unreadable`, as that of a retry.
        """
        client, opened = self._client, self._opened(job)
        if isinstance(opened, str):
            return opened
        if payload is not None:
            opened = structs.replace(opened, payload=Raw(payload))
        message = self._message(job.id, opened, keep_idempotency_key=keep_idempotency_key)
        stored = client.producer.put(message, client.backend)
        self.new_ids[job.id] = JobHandle(stored, client)
        return "new" if stored == message.id else "duplicate"

    def _opened(self, job: JobRecord) -> Envelope | str:
        """The message of an ended job, or why there is none."""
        try:
            return open_message(job, self._client.wire)
        except PayloadErased:
            return "erased"
        except MessageRejected:
            return "unreadable"

    def _message(self, old: str, envelope: Envelope, *, keep_idempotency_key: bool) -> Message:
        """The same job, to run now: without the time of its start, and without a latest start that has passed."""
        id, now, wire = new_id(), self._clock.now(), self._client.wire
        expired = envelope.expires_at is not UNSET and to_microseconds(envelope.expires_at) <= now
        again = structs.replace(
            envelope,
            schedule=None,
            trace=UNSET,
            expires_at=UNSET if expired else envelope.expires_at,
            idempotency_key=envelope.idempotency_key if keep_idempotency_key else None,
        )
        wire.ring.authorise(wire.ring.kid, again.queue, again.job, guard_names(again))
        return Message(
            id=id,
            queue=envelope.queue,
            body=wire.seal_follower(Follower(again), id, now, {RETRY_OF: old}, {}),
            handler=envelope.job,
            name=envelope.name,
            priority=envelope.priority,
            unique=None if envelope.unique is UNSET else envelope.unique,
            tags=() if envelope.tags is UNSET else tuple(envelope.tags),
        )


def _has_failed(job: JobRecord) -> bool:
    return job.attempts + job.crashes > 0


def _foresee_cancel(job: JobRecord | None) -> str:
    if job is None:
        return "unknown"
    return "cancelled" if job.state in WAITING else "asked" if job.state == "leased" else "too_late"


def _foresee_reschedule(job: JobRecord | None) -> str:
    if job is None:
        return "unknown"
    return "rescheduled" if job.state in WAITING else "running" if job.state == "leased" else "too_late"


def _foresee_delete(job: JobRecord | None) -> str:
    if job is None:
        return "unknown"
    return "not_ended" if job.state in (*WAITING, "leased") else "deleted"


def _foresee_retry(job: JobRecord | None) -> str:
    if job is None:
        return "unknown"
    if job.state == "dead":
        return "replayed"
    if job.state in ENDED_WELL:
        return "new"
    if job.state == "leased":
        return "running"
    return "rescheduled" if job.state == "delayed" and _has_failed(job) else "waiting"
