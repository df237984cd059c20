"""Capture: what a running handler prints becomes part of its output."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

from tenure.execution.outcome import MAX_OUTPUT


class _Printed:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0


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
        _printed.set(_Printed())

    def take(self) -> str:
        """Everything printed since `begin`."""
        printed = _printed.get()
        _printed.set(None)
        return "".join(printed.parts) if printed and printed.parts else ""

    def write(self, text: str) -> int:
        printed = _printed.get()
        if printed is None:
            return self._through.write(text)
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
