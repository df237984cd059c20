"""Ids of jobs that a user typed: any start of an id that only one job has will do."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from tenure.app import Tenure
from tenure.backends.records import JobRecord
from tenure.cli.errors import CommandError
from tenure.cli.output import UUID, as_datetime, format_value, short_id
from tenure.cli.tables import format_age

_SHOWN = 5


def resolve_ids(app: Tenure, texts: Iterable[str]) -> tuple[str, ...]:
    """As `resolve_id`, each id once."""
    return tuple(dict.fromkeys(resolve_id(app, text) for text in texts))


def resolve_id(app: Tenure, text: str) -> str:
    """The id of the only job whose id starts with this text; the text itself if there is no such job.

    A complete UUID is used without a lookup. Where neither the backend nor a store shows jobs, ids must be complete.
    """
    if UUID.fullmatch(text) or not text:
        return text
    parts = app.parts()
    for reader in (parts.jobs, parts.inline_runs):
        if reader is not None and (found := reader.with_prefix(text, limit=_SHOWN + 1)):
            return found[0].id if len(found) == 1 else _refuse(text, found)
    return text


def _refuse(text: str, found: Sequence[JobRecord]) -> str:
    shown = found[:_SHOWN]
    short = {short_id(record.id) for record in shown}
    ids = [short_id(record.id) if len(short) == len(shown) else record.id for record in shown]
    listed = ", ".join(f"{id} ({_describe(record)})" for id, record in zip(ids, shown, strict=True))
    more = " and more" if len(found) > _SHOWN else ""
    raise CommandError(f"several ids start with {text!r}: {listed}{more}; give more of the id")


def _describe(record: JobRecord) -> str:
    enqueued = as_datetime(record.enqueued_at)
    age = f", {format_age(enqueued, datetime.now(UTC))}" if enqueued else ""
    return f"{record.state}, {format_value(record.handler)}{age}"
