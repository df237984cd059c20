"""Every exception that Tenure raises, in one tree, and the exceptions with which a handler controls its own job."""

from datetime import datetime, timedelta

GAVE_UP = "gave_up"  # the reason of a dead letter whose error says that no further attempt can succeed
Wait = float | str | timedelta | datetime


class TenureError(Exception):
    """The root of every error this package raises on purpose."""


class SettingsError(TenureError):
    """A setting is unknown, of the wrong type, or missing; the message names its path."""


class UntrustedKeyFile(SettingsError):
    """Users other than its owner can read, change or replace the key file beside a SQLite database."""


class InvalidJob(TenureError, ValueError):
    """A job has options with which it could never run."""


class UnknownQueue(InvalidJob):
    """The app does not know a queue of this name, and the setting `strict_queues` or `resolve_queue` refuses it."""


class NotAJob(InvalidJob, TypeError):
    """Something else was given where a job, the key of a handler or a queue is needed; says what to write."""


class InvalidSchedule(InvalidJob):
    """A schedule can never be due, or conflicts with another; the message names the field or the schedules."""


class NotSupported(TenureError, TypeError):
    """An adapter of another library has no counterpart for this; the message says what to write instead."""


class InvalidHandler(TenureError, TypeError):
    """A callable or class cannot serve as a handler."""


class InvalidPayload(InvalidJob):
    """A payload does not fit its handler, or JSON cannot carry it; the message names the path."""


class UnknownHandler(TenureError, LookupError):
    """No handler is registered under this key."""


class ForbiddenHandler(TenureError):
    """The queue's allowlist does not name this handler."""


class MessageRejected(TenureError):
    """A message failed a check before its handler was called; `reason` is stored with the dead letter."""

    reason = "malformed"


class Malformed(MessageRejected):
    """The bytes are not an envelope: too large, too deep, not JSON, or of the wrong shape."""


class BadSignature(MessageRejected):
    """The signature does not match, or the message was sealed for another queue or as another job."""

    reason = "bad_signature"


class OutOfScope(MessageRejected):
    """The key that sealed the message may not sign for its queue or its handler."""

    reason = "out_of_scope"


class WrongAudience(MessageRejected):
    """The message was sealed for another audience."""

    reason = "wrong_audience"


class UnknownKey(MessageRejected):
    """The key id is not in the key ring (yet): a rotation may be under way."""

    reason = "unknown_key"


class UnsupportedVersion(MessageRejected):
    """The envelope has a version that this release cannot read."""

    reason = "unsupported_version"


class NewerPayload(MessageRejected):
    """The payload has a version that the handler does not know (yet): a deploy may be under way."""

    reason = "newer_payload"


class BackendError(TenureError):
    """A backend could not do what was requested."""


class UnknownBackend(BackendError):
    """No backend is registered for the scheme of this URL."""


class BackendUnavailable(BackendError):
    """The server or file behind a backend cannot be reached."""


class Unstorable(BackendError):
    """A backend can never store this message or this end of a job, however often it is tried."""


class SchemaError(BackendError):
    """The stored schema does not fit this release."""


class PartialPut(BackendError):
    """Some messages of a put were stored and others were not; `accepted` lists the stored ids."""

    def __init__(self, message: str, accepted: list[str]) -> None:
        super().__init__(message)
        self.accepted = accepted


class DuplicateJob(TenureError):
    """A job with the same `unique` waits or runs already; `existing` is its id."""

    def __init__(self, message: str, existing: str) -> None:
        super().__init__(message)
        self.existing = existing


class RateLimited(TenureError):
    """No token is left now; `again` is the number of seconds until the next."""

    def __init__(self, message: str, again: float) -> None:
        super().__init__(message)
        self.again = again


class CircuitOpen(TenureError):
    """A circuit breaker is open: the calls that it protects have failed too often, and none is made for a while.

    With a `key` it stops a running job; the job then waits for that key, or until `until`, in UTC microseconds.
    """

    def __init__(self, message: str, key: str | None = None, until: int = 0) -> None:
        super().__init__(message)
        self.key = key
        self.until = until


class AccessDenied(TenureError):
    """A user of the dashboard may not see or do this."""


class ActionRefused(TenureError):
    """An action of the dashboard cannot be done as things are now; nothing was changed."""


class JobNotFound(TenureError, LookupError):
    """No job with this id is known, or its state does not allow the action."""


class WorkerNotFound(TenureError, LookupError):
    """No worker with this id is alive."""


class InvalidFilter(TenureError, ValueError):
    """A search for jobs names an unknown state, or a cursor that no page of such a search returned."""


class ResultTimeout(TenureError, TimeoutError):
    """A caller waited for the result of a job, and the job has not ended yet."""


class ResultCut(TenureError):
    """The result of a job was longer than the setting `max_output` allows, so only its beginning is stored."""


class InvalidResult(TenureError, TypeError):
    """The stored result of a job is not of the type that its handler declares, or that the caller asked for."""


class PayloadErased(TenureError):
    """The payload of an ended job is no longer kept, so it can be neither shown nor run again."""


class JobFailed(TenureError):
    """A job on the `sync` backend, or a job whose result was requested, ended without success.

    `reason` is what is recorded with the end. `error_type`, `error` and `traceback` are texts of the last error: the
    name of its class, its message, and where it was raised. `attempts` is how often the handler failed.
    """

    def __init__(  # noqa: PLR0913 - a value
        self,
        message: str,
        *,
        id: str = "",
        state: str = "",
        reason: str | None = None,
        error_type: str | None = None,
        error: str | None = None,
        traceback: str | None = None,
        attempts: int = 0,
    ) -> None:
        super().__init__(message)
        self.id = id
        self.state = state
        self.reason = reason
        self.error_type = error_type
        self.error = error
        self.traceback = traceback
        self.attempts = attempts


class Retry(TenureError):
    """Raised by a handler: run the job again; counts as an attempt.

    `delay` is seconds, text such as "10m", a timedelta or an aware datetime; without it the retry policy decides.
    """

    def __init__(self, message: str = "the handler asked for a retry", *, delay: Wait | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Fail(TenureError):
    """Raised by a handler: the job has failed for good; it is dead-lettered at once, even if it has retries left."""

    def __init__(self, message: str, *, reason: str = GAVE_UP) -> None:
        super().__init__(message)
        self.reason = reason


class Refused(Fail):
    """Raised by a built-in handler, or at enqueue: the settings do not permit the job; costs no attempt."""

    def __init__(self, message: str, *, reason: str = "forbidden") -> None:
        super().__init__(message, reason=reason)


class CommandFailed(TenureError):
    """A command or program failed; `code` is its exit code, or minus the signal that killed it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class ListenersFailed(TenureError):
    """Listeners of an event failed; the others were called all the same."""


class RequestFailed(TenureError):
    """A request got no answer or a failing one; `status` is that of the answer, or None if there was none."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class NotDelivered(TenureError):
    """A notification was not delivered; the message says why."""


class Cancel(TenureError):
    """Raised by a handler: end this job for good, without a failure."""

    def __init__(self, reason: str = "the handler cancelled the job") -> None:
        super().__init__(reason)


class Snooze(TenureError):
    """Raised by a handler: run the job later, at no cost.

    `until` is seconds, text such as "10m", a timedelta or an aware datetime.
    """

    def __init__(self, until: Wait, reason: str = "the handler postponed the job") -> None:
        super().__init__(reason)
        self.until = until


Postpone = Snooze


class Interrupt(BaseException):
    """Stops a running handler from outside; not an `Exception`, so that handlers do not swallow it."""


class DeadlineExceeded(Interrupt):
    """The attempt ran past its timeout."""


class Cancelled(Interrupt):
    """A user cancelled the job while it ran."""

    reason = "cancelled on request"

    def __init__(self, message: str = "the job was cancelled while it ran") -> None:
        super().__init__(message)


class StopNow(Interrupt):
    """The worker got a second signal to stop: the running job goes back and is not charged."""
