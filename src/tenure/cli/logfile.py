"""A log file beside the console: the same lines, each with its time, in a file whose name may hold the date."""

import logging
import os
import time
from pathlib import Path
from typing import TextIO

from tenure.cli.failures import CommandError
from tenure.cli.logs import OneLine
from tenure.cli.progress import journal

_STDERR = 2


class DatedFile(logging.StreamHandler):  # type: ignore[type-arg] # generic only in the stubs
    """Writes to the file that the pattern names now: `worker-%Y-%m-%d.log` moves on at midnight.

    A standard error that leads nowhere, as that of a detached worker does, leads here from then on.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._name = time.strftime(pattern)
        super().__init__(open_log(self._name))
        self.is_stderr = os.path.samestat(os.fstat(_STDERR), os.stat(os.devnull))  # noqa: PTH116 - one of two alike
        self._lead_here()

    def attach(self, *, debug: bool) -> None:
        """From now on what is logged and told goes to the file too; call it when the console is set up."""
        self.setFormatter(OneLine(detailed=True, debug=debug, terminal=False))
        if self.is_stderr:
            for console in [each for each in logging.root.handlers if isinstance(each.formatter, OneLine)]:
                logging.root.removeHandler(console)
        logging.root.addHandler(self)
        journal.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if (name := time.strftime(self._pattern)) != self._name:
            self._move(name)
        super().emit(record)

    def let_go(self) -> None:
        """Let standard error lead nowhere again, for a process that starts over."""
        if self.is_stderr:
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), _STDERR)

    def _move(self, name: str) -> None:
        """A folder that has gone missing since the start costs a date in the name, not the lines."""
        self._name = name
        try:
            old = self.setStream(open_log(name))
        except CommandError:
            return
        self._lead_here()
        if old:
            old.close()

    def _lead_here(self) -> None:
        if self.is_stderr:
            os.dup2(self.stream.fileno(), _STDERR)


def open_log(name: str) -> TextIO:
    try:
        return Path(name).open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CommandError(f"the log file {name!r} cannot be opened: {error.strerror}") from error
