"""Capture: what a running handler prints becomes part of its output."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

from tenure.execution.outcome import MAX_OUTPUT


class _Printed:
    """What a thread or task prints; kept from job to job, because most print nothing."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.is_open = False


_printed: ContextVar[_Printed | None] = ContextVar("tenure.printed", default=None)


class Capture:
    """Stands in for sys.stdout; what is printed outside a job, or by threads a job started, passes through."""

    def __init__(self) -> None:
        self._through: TextIO = sys.stdout

    @contextmanager
    def installed(self) -> Iterator[None]:
        self._through = before = sys.stdout
        sys.stdout = stand_in = cast("TextIO", self)
        try:
            yield
        finally:
            if sys.stdout is stand_in:  # somebody may have put another stream there since
                sys.stdout = before

    def begin(self) -> None:
        """From now on, until `take`, printing in this thread or task is kept."""
        printed = _printed.get()
        if printed is None:
            printed = _Printed()
            _printed.set(printed)
        printed.is_open = True

    def take(self) -> str:
        """Everything printed since `begin`."""
        printed = _printed.get()
        if printed is None:
            return ""
        printed.is_open = False
        if not printed.parts:
            return ""
        text = "".join(printed.parts)
        printed.parts, printed.size = [], 0
        return text

    def write(self, text: str) -> int:
        printed = _printed.get()
        if printed is None or not printed.is_open:
            return self._through.write(text)
        if not isinstance(text, str):  # as a text stream refuses it: click asks in this way which kind it has
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if printed.size <= MAX_OUTPUT:
            printed.parts.append(text)
            printed.size += len(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Everything but writing (encoding, isatty, flush, …) is the real stream's business."""
        return getattr(self._through, name)
