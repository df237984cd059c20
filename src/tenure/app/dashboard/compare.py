"""Compares two jobs, field by field, in the order of the job page."""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.job import JobDetails, OneJobQuery
from tenure.app.dashboard.jobs import find_id
from tenure.redaction import escape_controls

_MAX_LINES = 1000  # of one value: comparing takes time in the square of them
_CONTEXT = 2  # equal lines that are shown around a difference

Sign = Literal["-", "+", " ", "fold"]


class DiffRow(Struct, frozen=True):
    """A line of the comparison: of the first job (-), the second (+), both, or a note about folded lines."""

    sign: Sign
    text: str


class ComparedJob(Struct, frozen=True, kw_only=True):
    id: str
    handler: str
    name: str | None
    state: str


class ComparePage(Struct, frozen=True, kw_only=True):
    """Without a second job the page asks for its id; `is_equal`: nothing but ids and times differs."""

    first: ComparedJob
    second: ComparedJob | None = None
    rows: tuple[DiffRow, ...] = ()
    is_equal: bool = False


class CompareQuery(Struct, frozen=True, kw_only=True):
    page: ClassVar[str] = "job-compare"
    id: str
    other: str = field(default="", name="with")

    def read(self, sources: Sources, access: Access) -> ComparePage:
        first = OneJobQuery(id=self.id).read(sources, access)
        if not self.other:
            return ComparePage(first=_compared(first))
        other = self.other.strip()
        second = OneJobQuery(id=find_id(sources, access, other) or other).read(sources, access)
        rows = tuple(diff(fields_of(first), fields_of(second)))
        return ComparePage(
            first=_compared(first),
            second=_compared(second),
            rows=rows,
            is_equal=all(row.sign in (" ", "fold") for row in rows),
        )


def _compared(job: JobDetails) -> ComparedJob:
    return ComparedJob(id=job.id, handler=job.handler, name=job.name, state=job.state)


def fields_of(job: JobDetails) -> dict[str, Any]:
    """What is compared, by name, in the order of the page; texts are shown on one line, other values as JSON."""
    facts = job.facts
    runs = [step for step in job.steps if step.seconds is not None and step.title.startswith("Attempt")]
    return {
        "state": "running" if job.state == "leased" else job.state,
        "handler": job.handler,
        "name": job.name,
        "answer": job.explanation[0].text if job.explanation else None,
        "attempts": f"{job.facts.failures} failed" + (f" of {job.max_tries}" if job.max_tries else ""),
        "errors": [f"{step.error_type}: {step.error}" for step in job.steps if step.error_type] or None,
        "run time": f"{runs[0].seconds:.3g} s" if runs else None,
        "worker": facts.worker,
        "queue": facts.queue,
        "priority": facts.priority,
        "tags": list(facts.tags) or None,
        "timeout": None if facts.timeout is None else f"{facts.timeout:g} s",
        "retries": facts.max_retries,
        "backoff": facts.backoff,
        "crashes": facts.crashes,
        "key": facts.key_id,
        "unique": facts.unique,
        "idempotency key": facts.idempotency_key,
        **dict(facts.guards),
        "schedule": facts.schedule,
        "retry of": facts.retry_of,
        "payload version": facts.payload_version,
        "payload": job.payload_note or job.payload,
        "meta": job.meta or None,
        "result": job.result_note or job.result,
    }


def diff(first: dict[str, Any], second: dict[str, Any]) -> Iterator[DiffRow]:
    """The differing fields, line by line; equal ones in a row are folded, with their names."""
    equal: list[str] = []
    for name in dict.fromkeys((*first, *second)):
        one, two = _lines(name, first.get(name)), _lines(name, second.get(name))
        if one == two:
            equal += [name] if one else []
            continue
        yield from _fold(equal)
        equal = []
        yield from _diff_lines(one, two)
    yield from _fold(equal)


def _fold(names: Sequence[str]) -> Iterator[DiffRow]:
    if names:
        count = len(names)
        yield DiffRow("fold", f"{count} equal field{'s' if count > 1 else ''} folded: {', '.join(names)}")


def _lines(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    lines = escape_controls(f"{name}: {text}").split("\n")
    return lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], "… the rest is not compared"]


def _diff_lines(one: list[str], two: list[str]) -> Iterator[DiffRow]:
    for tag, start, end, other_start, other_end in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from _equal_lines(one[start:end])
        else:
            yield from (DiffRow("-", line) for line in one[start:end])
            yield from (DiffRow("+", line) for line in two[other_start:other_end])


def _equal_lines(lines: Sequence[str]) -> Iterator[DiffRow]:
    if len(lines) <= 2 * _CONTEXT + 1:
        yield from (DiffRow(" ", line) for line in lines)
        return
    yield from (DiffRow(" ", line) for line in lines[:_CONTEXT])
    yield DiffRow("fold", f"{len(lines) - 2 * _CONTEXT} equal lines folded")
    yield from (DiffRow(" ", line) for line in lines[-_CONTEXT:])
