"""LiveLine: one line of a terminal, written over again and again; elsewhere it shows nothing."""

import os
import shutil
from typing import Self, TextIO

_ERASE = "\x1b[2K"


class LiveLine:
    """The cursor rests at its beginning, so that whatever else is printed takes its place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_live = stream.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._write("")

    def show(self, text: str) -> None:
        self._write(text[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        if self.is_live:
            self._stream.write(f"{_ERASE}{text}\r")
            self._stream.flush()


_WIDTH = 30


def bar(done: str, count: int, total: int | None) -> str:
    """How far something is: `replayed ███████░░░ 1500 of 2100`; without a bar when nobody knows the whole."""
    if not total:
        return f"{done} {count} …"
    full = min(_WIDTH, _WIDTH * count // total)
    return f"{done} {'█' * full}{'░' * (_WIDTH - full)} {count} of {total}"
