"""Logging for the command line: one line a record on stderr, for people or as JSON, unless the app set it up itself."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

import msgspec

from tenure.cli.failures import redactor
from tenure.redaction import one_line, printable

_ERASE_REST = "\x1b[K"  # of the progress line that may be under the cursor
_USUAL = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


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


class JsonLine(logging.Formatter):
    """An object a line: time, level, logger and message, then whatever the record was given in `extra`."""

    def __init__(self) -> None:
        super().__init__()
        self._redactor = redactor()

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= {name: value for name, value in record.__dict__.items() if name not in _USUAL and name not in said}
        if record.exc_info and (error := record.exc_info[1]):
            said["exception"] = f"{type(error).__qualname__}: {error}"
            said["trace"] = "".join(traceback.format_exception(error))
        masked = self._redactor.mask(said)
        return harmless(msgspec.json.encode(masked, enc_hook=repr).decode("utf-8", "backslashreplace"))


def formatter(style: str, *, detailed: bool, debug: bool, terminal: bool) -> logging.Formatter:
    """How lines are written in this style."""
    if style == "json":
        return JsonLine()
    return OneLine(detailed=detailed, debug=debug, terminal=terminal)


def is_console(handler: logging.Handler) -> bool:
    """Whether it was set up here."""
    return isinstance(handler.formatter, OneLine | JsonLine)


def set_up(verbose: int, debug: bool, style: str = "pretty") -> None:
    """Call it once the app is imported; an app that configured logging keeps what it has."""
    if verbose:
        logging.getLogger("tenure").setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    if logging.root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(style, detailed=verbose > 0, debug=debug, terminal=sys.stderr.isatty()))
    logging.root.addHandler(handler)


def harmless(json: str) -> str:
    """JSON whose characters cannot steer a terminal; those that could are only ever within its texts."""
    if json.isascii():
        return json.replace("\x7f", "\\u007f")
    return "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in json)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
