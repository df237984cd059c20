"""Dated: a file whose name holds the date, such as `work-%Y-%m-%d.log`, and its predecessors."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_DIRECTIVE = re.compile(r"%.")
_LOOK = 1.0  # seconds between two looks whether somebody moved the file away


class Dated:
    """The file that the pattern names now; of those that it named before, `keep` stay, or all when that is 0."""

    def __init__(self, pattern: str, keep: int = 0) -> None:
        self._pattern = pattern
        self.keep = keep
        self._look_at = 0.0
        self.name = time.strftime(pattern)

    def open(self) -> TextIO:
        """The file of now, to write at its end; older ones beyond what is kept are deleted."""
        self.name = time.strftime(self._pattern)
        self.prune()
        return Path(self.name).open("a", encoding="utf-8", errors="backslashreplace")

    def is_past(self, stream: TextIO) -> bool:
        """Whether the date has changed, or the file was moved away, as logrotate does."""
        if time.strftime(self._pattern) != self.name:
            return True
        if (now := time.monotonic()) < self._look_at:
            return False
        self._look_at = now + _LOOK
        try:
            return not os.path.samestat(os.fstat(stream.fileno()), Path(self.name).stat())
        except OSError:
            return not Path(self.name).exists()

    def prune(self) -> None:
        """Delete what is not kept; only what the pattern could have named is taken for a predecessor."""
        pattern, current = Path(self._pattern), Path(self.name)
        if not self.keep or "%" in str(pattern.parent) or "%" not in pattern.name:
            return
        dated = []
        for path in current.parent.glob(_DIRECTIVE.sub("*", pattern.name)):
            with suppress(ValueError):
                dated.append((time.strptime(path.name, pattern.name), path))
        older = [path for _, path in sorted(dated, reverse=True) if path != current]
        for path in older[self.keep - 1 :]:
            with suppress(OSError):
                path.unlink()
