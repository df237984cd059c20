"""JobInfo: what is known about a job, as a frozen value with times in UTC; AttemptInfo: one of its attempts."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from tenure.definition.context import Progress
from tenure.definition.payload import Shape
from tenure.errors import InvalidResult, JobFailed, ResultCut


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInfo:
    """One attempt of a job; what the backend does not know is None.

    `number` is what the context of the attempt had: 1 plus the failures before it.
    `outcome` is `running`, `done`, `cancelled`, `expired`, `failed`, `crashed` or `vanished`.
    `error_type` is the name of the exception class and `error` its message. Times are in UTC, lengths in seconds.
    """

    number: int
    outcome: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    worker: str | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None
    seconds: float | None = None
    wait: float | None = None
    cpu: float | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """Everything that is known about one job.

    `payload` and `meta` are shown with secrets masked; if they are not known, `unreadable` says why.
    `output` is the stored text of the result. `worker` holds the job now, or ended it.
    `attempts` counts failures of the handler, `crashes` deaths of its process, `runs` both and the other runs.
    `waits_for` is the guard that a parked job waits for; `retry_of` is the job that this one repeats.
    """

    id: str
    state: str
    queue: str
    handler: str
    name: str | None
    priority: int
    runs: int
    attempts: int
    crashes: int
    enqueued_at: datetime
    due_at: datetime
    finished_at: datetime | None = None
    payload: Any = None
    meta: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    unreadable: str | None = None
    output: str | None = None
    output_is_json: bool = False
    output_length: int | None = None
    progress: Progress | None = None
    worker: str | None = None
    lease_until: datetime | None = None
    cancel_asked: bool = False
    waits_for: str | None = None
    reason: str | None = None
    retry_of: str | None = None
    history: tuple[AttemptInfo, ...] = ()

    @property
    def failures(self) -> tuple[AttemptInfo, ...]:
        """The attempts that failed, the oldest first."""
        return tuple(each for each in self.history if each.error_type is not None)

    @property
    def error(self) -> str | None:
        """The last error, as `Type: message`."""
        failures = self.failures
        return f"{failures[-1].error_type}: {failures[-1].error}" if failures else None

    @property
    def result(self) -> Any:
        """What a job that is done returned, as JSON decodes it; a result that was cut, or is not JSON, is a text."""
        if self.state != "done" or self.output is None or not self.output_is_json:
            return self.output if self.state == "done" else None
        try:
            return msgspec.json.decode(self.output)
        except msgspec.DecodeError:
            return self.output

    def result_as(self, declared: Any) -> Any:
        """What the job returned, as a value of this type; raises JobFailed if the job is not done."""
        if self.state != "done":
            raise _job_failed(self)
        if self.output_length is not None:
            raise ResultCut(
                f"the result of job {self.id!r} has {self.output_length} characters, and only its beginning is stored "
                "(`output` of the job's info): raise the setting max_output up to 65536, or let the job store large "
                "data elsewhere and return its location"
            )
        if declared is type(None):
            return None  # `output` is what the handler printed
        return self.result if declared is Any else self._decoded(declared)

    def as_dict(self) -> dict[str, Any]:
        """All fields as JSON types, times as ISO text, for any JSON encoder."""
        fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {**fields, "result": self.result}

    def _decoded(self, declared: Any) -> Any:
        raw = self.output.encode() if self.output and self.output_is_json else msgspec.json.encode(self.output)
        try:
            return Shape(declared).unpack(raw)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            what = str(error) if self.output is not None else self.reason or "it has none, or it was erased"
            raise InvalidResult(
                f"the result of job {self.id!r} is not {_type_name(declared)}, which handler {self.handler!r} "
                f"declares: {what}; app.handle(id, type=Any) reads a result as it is stored"
            ) from error


def _job_failed(info: JobInfo) -> JobFailed:
    last = info.failures[-1] if info.failures else None
    return JobFailed(
        f"job {info.id!r} is {info.state} ({info.reason}){f': {info.error}' if last else ''}",
        id=info.id,
        state=info.state,
        reason=info.reason,
        error_type=None if last is None else last.error_type,
        error=None if last is None else last.error,
        traceback=None if last is None else last.traceback,
        attempts=info.attempts,
    )


def _type_name(declared: Any) -> str:
    is_class = isinstance(declared, type) and not hasattr(declared, "__origin__")
    return declared.__qualname__ if is_class else str(declared)
