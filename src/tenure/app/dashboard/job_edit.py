"""Retry with edited arguments: a new job with another payload, sealed with the dashboard's own key within its scope.

A user may not see all of a payload: secrets are masked, and `access.redact` may hide more. What is hidden and left as
it is shown keeps its value; a new value replaces it. So a mask never becomes part of a payload.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Effect, Preview, Sources
from tenure.app.dashboard.job import OpenedJob, edit_fault, opened_job
from tenure.errors import ActionRefused, InvalidPayload, TenureError
from tenure.redaction import MASK
from tenure.wire.envelope import Envelope

_HIDDEN_LIST = (
    "{path} is a list with hidden values, and its items were added, removed or moved: keep their number, or write all "
    "of its values"
)


class EditJobPage(Struct, frozen=True, kw_only=True):
    """A job that can be run again with other arguments; `fault` says why it cannot.

    `payload` is its payload as JSON text, as far as the user may see it. With `has_hidden` some of it is not shown.
    `is_checked`: the handler is known here, so that the new payload is checked before the job is made.
    """

    id: str
    handler: str
    name: str | None
    state: str
    queue: str
    payload: str = ""
    has_hidden: bool = False
    is_checked: bool = False
    key_id: str = ""
    fault: str | None = None


class EditJobQuery(Struct, frozen=True, kw_only=True):
    page: ClassVar[str] = "job-edit"
    id: str

    def read(self, sources: Sources, access: Access) -> EditJobPage:
        access.check_action("jobs.edit")
        job = opened_job(sources, access, self.id)
        fault = edit_fault(sources, job)
        record, info, envelope = job.record, job.info, job.envelope
        return EditJobPage(
            id=record.id,
            handler=info.handler,
            name=info.name,
            state=record.state,
            queue=record.queue,
            payload="" if fault else json.dumps(info.payload, indent=2, ensure_ascii=False),
            has_hidden=envelope is not None and info.payload != _decoded(envelope),
            is_checked=record.handler in sources.app.registry,
            key_id=sources.app.open_backend().wire.ring.kid,
            fault=fault,
        )


class EditJob(Struct, frozen=True, kw_only=True):
    """Run an ended job again with other arguments, as a new job; `payload` is JSON text."""

    action: ClassVar[str] = "jobs.edit"
    id: str
    payload: str

    def target(self) -> str:
        return self.id

    def check(self, sources: Sources, access: Access) -> None:
        self._payload(sources, access)

    def preview(self, sources: Sources, access: Access) -> Preview:
        job, _ = self._payload(sources, access)
        name = " ".join(filter(None, (job.info.handler, job.info.name)))
        return Preview(
            question=f"Run {name} with edited arguments?",
            verb="Run the new job",
            effects=(
                Effect(
                    f"stays as it is; the new job names it as the job that it repeats ({self.id})", job.record.state
                ),
            ),
            notes=("The new job has its own id, and not the idempotency key of this one.",),
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        job, payload = self._payload(sources, access)
        yield {sources.app.jobs.changes.repeat(job.record, payload=payload): 1}

    def outcome(self, counts: Mapping[str, int]) -> str:
        if counts.get("new"):
            return "A new job with the edited arguments is enqueued."
        return "No job was made: one with the same unique text waits or runs already, or the message is gone."

    def undo(self) -> None:
        return None

    def _payload(self, sources: Sources, access: Access) -> tuple[OpenedJob, bytes]:
        """The job and its new payload; raises ActionRefused if it cannot be made."""
        job = opened_job(sources, access, self.id)
        if fault := edit_fault(sources, job):
            raise ActionRefused(f"job {self.id!r} cannot be run with other arguments: {fault}")
        if job.envelope is None:
            raise ActionRefused(f"the message of job {self.id!r} cannot be read")
        try:
            edited = msgspec.json.decode(self.payload)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ActionRefused(f"the new payload is not JSON: {error}") from error
        raw = msgspec.json.encode(merge_hidden(_decoded(job.envelope), job.info.payload, edited))
        _check_fits(sources, job.envelope, raw)
        return job, raw


def merge_hidden(original: Any, shown: Any, edited: Any, path: str = "$") -> Any:
    """The edited value, in which everything that is as it was shown has its original value again."""
    if msgspec.json.encode(edited) == msgspec.json.encode(shown):  # True is equal to 1, but not the same JSON
        return original
    if isinstance(edited, dict):
        return _merge_members(original, shown, edited, path)
    if isinstance(edited, list):
        return _merge_items(original, shown, edited, path)
    if isinstance(edited, str) and MASK in edited:
        raise ActionRefused(f"{path} is {edited!r:.80}, which is how hidden values are shown: write the whole value")
    return edited


def _merge_members(original: Any, shown: Any, edited: Mapping[str, Any], path: str) -> dict[str, Any]:
    was_object = isinstance(original, dict) and isinstance(shown, dict)
    before: dict[str, Any] = original if was_object else {}
    seen: dict[str, Any] = shown if was_object else {}
    merged = {name: value for name, value in before.items() if name not in seen}
    for name, value in edited.items():
        known = before.get(name) if name in seen else None
        merged[name] = merge_hidden(known, seen.get(name), value, f"{path}.{name}")
    return merged


def _merge_items(original: Any, shown: Any, edited: list[Any], path: str) -> list[Any]:
    """An item is known by its place in the list; if the places changed, a hidden item cannot be found again."""
    before, seen = (original, shown) if isinstance(original, list) and isinstance(shown, list) else ([], [])
    if len(before) == len(seen) == len(edited):
        items = enumerate(zip(before, seen, edited, strict=True))
        return [merge_hidden(*each, f"{path}[{at}]") for at, each in items]
    hidden = set(map(msgspec.json.encode, seen)) - set(map(msgspec.json.encode, before))
    if any(msgspec.json.encode(item) in hidden for item in edited):
        raise ActionRefused(_HIDDEN_LIST.format(path=path))
    return [merge_hidden(None, None, item, f"{path}[{at}]") for at, item in enumerate(edited)]


def _check_fits(sources: Sources, envelope: Envelope, payload: bytes) -> None:
    """Raise unless the handler can read the payload, if this app has the handler."""
    if envelope.job not in sources.app.registry:
        return
    handler = sources.app.registry.get(envelope.job)
    try:
        handler.unpack(payload, envelope.payload_version)
    except (TenureError, TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        what = str(error) if isinstance(error, InvalidPayload) else f"the payload does not fit its handler: {error}"
        raise ActionRefused(what) from error


def _decoded(envelope: Envelope) -> Any:
    return msgspec.json.decode(envelope.payload)
