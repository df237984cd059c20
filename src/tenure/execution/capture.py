"""Capture: what a running handler prints becomes part of its output."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from tenure.execution.outcome import MAX_OUTPUT


class Capture:
    """Stands in for sys.stdout on one thread; other threads and idle times pass through."""

    def __init__(self) -> None:
        self._through: TextIO = sys.stdout
        self._thread = 0
        self._open = False
        self._parts: list[str] = []
        self._size = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        self._through, self._thread = sys.stdout, threading.get_ident()
        sys.stdout = cast("TextIO", self)
        try:
            yield
        finally:
            sys.stdout = self._through

    def begin(self) -> None:
        self._open = True

    def take(self) -> str:
        """Everything printed since `begin`."""
        self._open = False
        if not self._parts:
            return ""
        text = "".join(self._parts)
        self._parts, self._size = [], 0
        return text

    def write(self, text: str) -> int:
        if not self._open or threading.get_ident() != self._thread:
            return self._through.write(text)
        if self._size <= MAX_OUTPUT:
            self._parts.append(text)
            self._size += len(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """Everything but writing (encoding, isatty, flush, …) is the real stream's business."""
        return getattr(self._through, name)
