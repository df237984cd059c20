"""Logging for the command line: one line a record on stderr, unless the app set up logging itself."""

import logging
import sys

from tenure.cli.failures import redactor
from tenure.redaction import one_line, printable

_ERASE_REST = "\x1b[K"  # of the progress line that may be under the cursor


class OneLine(logging.Formatter):
    """An exception is shown by its type and message; its traceback only for --debug."""

    def __init__(self, *, detailed: bool, debug: bool, terminal: bool) -> None:
        super().__init__(f"{'%(asctime)s ' if detailed else ''}%(levelname)s: %(message)s")
        self._redactor = redactor()
        self._debug = debug
        self._end = _ERASE_REST if terminal else ""

    def format(self, record: logging.LogRecord) -> str:
        if self._debug:
            return printable(self._redactor.text(super().format(record))) + self._end
        plain = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None, "stack_info": None})
        error = record.exc_info[1] if record.exc_info else None
        cause = f": {type(error).__qualname__}: {error}" if error else ""
        return one_line(self._redactor.text(super().format(plain) + cause)) + self._end


def set_up(verbose: int, debug: bool) -> None:
    """Call it once the app is imported; an app that configured logging keeps what it has."""
    if verbose:
        logging.getLogger("tenure").setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    if logging.root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(detailed=verbose > 0, debug=debug, terminal=sys.stderr.isatty()))
    logging.root.addHandler(handler)
