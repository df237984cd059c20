"""A log file beside the console: the same lines, each with its time, in a file whose name may hold the date."""

import logging
import os
import sys
import time
from pathlib import Path
from typing import TextIO

from tenure.cli.failures import CommandError
from tenure.cli.logs import OneLine
from tenure.cli.progress import journal


class DatedFile(logging.StreamHandler):  # type: ignore[type-arg] # generic only in the stubs
    """Writes to the file that the pattern names now: `worker-%Y-%m-%d.log` moves on at midnight.

    A standard error that was the old file, as that of a detached worker is, moves along.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._name = time.strftime(pattern)
        super().__init__(open_log(self._name))

    def emit(self, record: logging.LogRecord) -> None:
        if (name := time.strftime(self._pattern)) != self._name:
            self._move(name)
        super().emit(record)

    def is_stderr(self) -> bool:
        return os.path.sameopenfile(self.stream.fileno(), sys.stderr.fileno())

    def _move(self, name: str) -> None:
        """A folder that has gone missing since the start costs a date in the name, not the lines."""
        self._name = name
        try:
            fresh = open_log(name)
        except CommandError:
            return
        if self.is_stderr():
            os.dup2(fresh.fileno(), sys.stderr.fileno())
        old = self.setStream(fresh)
        if old:
            old.close()


def open_log(name: str) -> TextIO:
    try:
        return Path(name).open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CommandError(f"the log file {name!r} cannot be opened: {error.strerror}") from error


def attach(pattern: str, *, debug: bool) -> None:
    """From now on what is logged and told goes to the file too; call it when the console is set up."""
    handler = DatedFile(pattern)
    handler.setFormatter(OneLine(detailed=True, debug=debug, terminal=False))
    if handler.is_stderr():
        for console in [each for each in logging.root.handlers if isinstance(each.formatter, OneLine)]:
            logging.root.removeHandler(console)
    logging.root.addHandler(handler)
    journal.addHandler(handler)
