"""A log file beside the console: the same lines, each with its time, in a file whose name may hold the date."""

import logging
import os
from pathlib import Path
from typing import TextIO

from tenure.cli.failures import CommandError
from tenure.cli.logs import formatter, is_console
from tenure.cli.progress import journal
from tenure.settings import Settings
from tenure.worker.dated import Dated

_STDERR = 2


class DatedFile(logging.StreamHandler):  # type: ignore[type-arg] # generic only in the stubs
    """Writes to the file that the pattern names now: `worker-%Y-%m-%d.log` moves on at midnight.

    A standard error that leads nowhere, as that of a detached worker does, leads here from then on.
    """

    def __init__(self, pattern: str) -> None:
        self._file = Dated(pattern)
        super().__init__(self._open())
        self.is_stderr = os.path.samestat(os.fstat(_STDERR), os.stat(os.devnull))  # noqa: PTH116 - one of two alike
        self._lead_here()

    def attach(self, settings: Settings, *, debug: bool) -> None:
        """From now on what is logged and told goes to the file too; call it when the console is set up."""
        self._file.keep = settings.log_keep
        self._file.prune()
        self.setFormatter(formatter(settings.log_format, detailed=True, debug=debug, terminal=False))
        if self.is_stderr:
            for console in [each for each in logging.root.handlers if is_console(each)]:
                logging.root.removeHandler(console)
        logging.root.addHandler(self)
        journal.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self._file.is_past(self.stream):
            self._move()
        super().emit(record)

    def let_go(self) -> None:
        """Let standard error lead nowhere again, for a process that starts over."""
        if self.is_stderr:
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), _STDERR)

    def _move(self) -> None:
        """A folder that has gone missing since the start costs a date in the name, not the lines."""
        try:
            old = self.setStream(self._open())
        except CommandError:
            return
        self._lead_here()
        if old:
            old.close()

    def _lead_here(self) -> None:
        if self.is_stderr:
            os.dup2(self.stream.fileno(), _STDERR)

    def _open(self) -> TextIO:
        try:
            return self._file.open()
        except OSError as error:
            raise CommandError(f"the log file {self._file.name!r} cannot be opened: {error.strerror}") from error
