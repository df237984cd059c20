"""Notices: what of an event is worth telling, and in which words; pure functions."""

from collections.abc import Iterator, Sequence
from string import Template
from typing import Any

from msgspec import Struct, structs

from tenure.backends.asking import JobRecord
from tenure.clock import to_datetime
from tenure.events import Event, Settled, Settlement, Status, TickFailed, TickSkipped
from tenure.recipients import FACTS, Happening, Notification
from tenure.redaction import Redactor, one_line, printable

_LONGEST = 2000
_MEANT = ("paused", "all schedules are paused", "disabled", "only in ")  # ticks that somebody left out on purpose
_SUBJECTS: dict[Happening, str] = {
    "success": "$handler succeeded on $queue",
    "failure": "$handler failed on $queue, attempt $attempt",
    "dead": "$handler is dead on $queue: $reason",
    "missed": "schedule $schedule left out a tick: $reason",
    "tick_failed": "the job of schedule $schedule failed: $reason",
}


class Notice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to tell; what is not known is left out. `at` and `tick` are ISO times."""

    event: Happening
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
        """What is known, without what has nothing to say."""
        return {name: value for name in FACTS if (value := getattr(self, name)) not in (None, 0)}


class Letter(Struct, frozen=True):
    """A notice in words."""

    notice: Notice
    subject: str
    text: str

    def members(self) -> dict[str, Any]:
        """As JSON tells it: the facts, and the words."""
        return {**self.notice.facts(), "subject": self.subject, "text": self.text}


def notices_of(event: Event, notification: Notification, own: Sequence[str], now: int) -> Iterator[Notice]:
    """What this notification tells of an event; jobs of the handlers `own` are told of by nobody."""
    at = _moment(now)
    if isinstance(event, Settled):
        for settlement in event.settlements:
            if (happened := _happened(settlement, notification)) and not _is_left_out(settlement, notification, own):
                yield _of_job(settlement, happened, at)
    elif isinstance(event, TickSkipped):
        if "missed" in notification.on and not (event.why or "").startswith(_MEANT):
            yield _of_tick("missed", event, at)
    elif isinstance(event, TickFailed) and "tick_failed" in notification.on:
        yield structs.replace(_of_tick("tick_failed", event, at), id=event.id)


def _happened(settlement: Settlement, notification: Notification) -> Happening | None:
    """The gravest of what happened that is to be told."""
    if settlement.status in (Status.DEAD_LETTERED, Status.REJECTED) and "dead" in notification.on:
        return "dead"
    if settlement.failed and "failure" in notification.on:
        return "failure"
    return "success" if settlement.status is Status.ACKED and "success" in notification.on else None


def _is_left_out(settlement: Settlement, notification: Notification, own: Sequence[str]) -> bool:
    if notification.queues and settlement.queue not in notification.queues:
        return True
    handler = settlement.run.handler if settlement.run else None
    return handler is not None and is_other(handler, notification, own)


def is_other(handler: str, notification: Notification, own: Sequence[str]) -> bool:
    """Whether a notification does not tell of jobs of this handler."""
    return handler in own or (bool(notification.handlers) and handler not in notification.handlers)


def _of_job(settlement: Settlement, happened: Happening, at: str) -> Notice:
    notice = Notice(
        event=happened,
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


def _of_tick(happened: Happening, event: TickSkipped | TickFailed, at: str) -> Notice:
    return Notice(event=happened, schedule=event.schedule, tick=_moment(event.tick), reason=event.why, at=at)


def _moment(microseconds: int) -> str:
    return to_datetime(microseconds).isoformat(timespec="seconds")


def with_record(notice: Notice, record: JobRecord) -> Notice:
    """The notice with what the backend keeps of the job."""
    failed = notice.event in ("failure", "dead") and record.failures
    return structs.replace(
        notice,
        handler=record.handler,
        name=record.name,
        error=f"{record.failures[-1].type}: {record.failures[-1].message}" if failed else None,
        output=record.output if notice.event == "success" else None,
    )


def letter_of(notice: Notice, notification: Notification, redactor: Redactor) -> Letter:
    """The notice in the words of its templates, without secrets, and with nothing that steers a terminal or a mail."""
    masked = structs.replace(
        notice,
        **{
            name: printable(redactor.text(value))[:_LONGEST]
            for name, value in notice.facts().items()
            if isinstance(value, str)
        },
    )
    facts = masked.facts()
    told = {name: facts.get(name, "") for name in FACTS}
    subject = Template(notification.subject or f"[tenure] {_SUBJECTS[notice.event]}").substitute(told)
    usual = "\n".join(f"{name}: {value}" for name, value in facts.items())
    text = Template(notification.text).substitute(told) if notification.text is not None else usual
    return Letter(masked, one_line(subject)[:200], text)
