"""Notices: which events a notification reports, and the text of a notice; pure functions."""

from collections.abc import Iterator, Sequence
from string import Template
from typing import Any

from msgspec import Struct, structs

from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.events import Event, Settled, Settlement, Status, TickFailed, TickSkipped
from tenure.recipients import TEMPLATE_FIELDS, Notification, Trigger
from tenure.redaction import Redactor, one_line, printable

_MAX_VALUE_LENGTH = 2000
_INTENDED_SKIPS = ("paused", "all schedules are paused", "disabled", "only in ")  # beginnings of reasons
_SUBJECTS: dict[Trigger, str] = {
    "success": "$handler succeeded on $queue",
    "failure": "$handler failed on $queue, attempt $attempt",
    "dead": "$handler is dead on $queue: $reason",
    "missed": "schedule $schedule left out a tick: $reason",
    "tick_failed": "the job of schedule $schedule failed: $reason",
}


class Notice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to report; unknown fields are left out. `at` and `tick` are ISO times."""

    event: Trigger
    id: str | None = None
    queue: str | None = None
    handler: str | None = None
    name: str | None = None
    reason: str | None = None
    error: str | None = None
    output: str | None = None
    attempt: int | None = None
    seconds: float | None = None
    worker: str | None = None
    schedule: str | None = None
    tick: str | None = None
    at: str | None = None
    left_out: int = 0

    def facts(self) -> dict[str, Any]:
        """The fields that have a value."""
        return {name: value for name in TEMPLATE_FIELDS if (value := getattr(self, name)) not in (None, 0)}


class RenderedNotice(Struct, frozen=True):
    """A notice with its subject and text."""

    notice: Notice
    subject: str
    text: str

    def members(self) -> dict[str, Any]:
        """The members of its JSON object: the fields of the notice, subject and text."""
        return {**self.notice.facts(), "subject": self.subject, "text": self.text}


def notices_of(event: Event, notification: Notification, own: Sequence[str], now: int) -> Iterator[Notice]:
    """The notices of an event for this notification; jobs of the handlers `own` are never reported."""
    at = _moment(now)
    if isinstance(event, Settled):
        for settlement in event.settlements:
            if (kind := _kind_of(settlement, notification)) and not _is_filtered_out(settlement, notification, own):
                yield _of_job(settlement, kind, at)
    elif isinstance(event, TickSkipped):
        if "missed" in notification.on and not (event.why or "").startswith(_INTENDED_SKIPS):
            yield _of_tick("missed", event, at)
    elif isinstance(event, TickFailed) and "tick_failed" in notification.on:
        yield structs.replace(_of_tick("tick_failed", event, at), id=event.id)


def _kind_of(settlement: Settlement, notification: Notification) -> Trigger | None:
    """The most serious kind of event that this settlement is and the notification reports."""
    if settlement.status in (Status.DEAD_LETTERED, Status.REJECTED) and "dead" in notification.on:
        return "dead"
    if settlement.failed and "failure" in notification.on:
        return "failure"
    return "success" if settlement.status is Status.ACKED and "success" in notification.on else None


def _is_filtered_out(settlement: Settlement, notification: Notification, own: Sequence[str]) -> bool:
    if notification.queues and settlement.queue not in notification.queues:
        return True
    handler = settlement.run.handler if settlement.run else None
    return handler is not None and is_other_handler(handler, notification, own)


def is_other_handler(handler: str, notification: Notification, own: Sequence[str]) -> bool:
    """Whether a notification does not report jobs of this handler."""
    return handler in own or (bool(notification.handlers) and handler not in notification.handlers)


def _of_job(settlement: Settlement, kind: Trigger, at: str) -> Notice:
    notice = Notice(
        event=kind,
        id=settlement.id,
        queue=settlement.queue,
        reason=settlement.reason,
        attempt=settlement.attempt,
        at=at,
    )
    run = settlement.run
    if run is None:
        return notice
    return structs.replace(notice, handler=run.handler, seconds=round(run.seconds, 3), worker=run.worker)


def _of_tick(kind: Trigger, event: TickSkipped | TickFailed, at: str) -> Notice:
    return Notice(event=kind, schedule=event.schedule, tick=_moment(event.tick), reason=event.why, at=at)


def _moment(microseconds: int) -> str:
    return to_datetime(microseconds).isoformat(timespec="seconds")


def with_record(notice: Notice, record: JobRecord) -> Notice:
    """The notice with what the backend knows about the job."""
    failed = notice.event in ("failure", "dead") and record.failures
    return structs.replace(
        notice,
        handler=record.handler,
        name=record.name,
        error=f"{record.failures[-1].type}: {record.failures[-1].message}" if failed else None,
        output=record.output if notice.event == "success" else None,
    )


def render(notice: Notice, notification: Notification, redactor: Redactor) -> RenderedNotice:
    """Fill the templates; secrets are masked, and control characters for terminals and mails removed."""
    masked = structs.replace(
        notice,
        **{
            name: printable(redactor.text(value))[:_MAX_VALUE_LENGTH]
            for name, value in notice.facts().items()
            if isinstance(value, str)
        },
    )
    facts = masked.facts()
    values = {name: facts.get(name, "") for name in TEMPLATE_FIELDS}
    subject = Template(notification.subject or f"[tenure] {_SUBJECTS[notice.event]}").substitute(values)
    indented = {name: _indented(value) for name, value in values.items()}
    default = "\n".join(f"{name}: {indented[name]}" for name in facts)
    text = Template(notification.text).substitute(indented) if notification.text is not None else default
    return RenderedNotice(masked, one_line(subject)[:200], text)


def _indented(value: Any) -> Any:
    """Indent all lines but the first: a line of an error must not look like a field of the notice."""
    return value.replace("\n", "\n    ") if isinstance(value, str) else value
