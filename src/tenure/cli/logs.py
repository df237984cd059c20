"""Logs of the command line: one line per record on stderr and in a log file, as text or JSON.

An app that configures logging itself keeps its own configuration.
"""

import logging
import os
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click
import msgspec

from tenure.cli.errors import CommandError, current_redactor
from tenure.cli.output import short_id
from tenure.definition.context import current_context
from tenure.execution.outcome import output_log
from tenure.redaction import Redactor, escape_controls, one_line, printable
from tenure.settings import Settings
from tenure.worker.logs import DatedLogFile
from tenure.worker.logs import logger as outcome_log

# Messages that commands print themselves; only a log file and a JSON console receive them as records.
progress_log = logging.getLogger("tenure.progress")
progress_log.propagate = False
progress_log.setLevel(logging.INFO)

# How a worker's console looks, for its child processes, whose standard error the worker passes on.
CONSOLE_VARIABLE = "_TENURE_CONSOLE"
_LEVELS = {0: logging.NOTSET, 1: logging.INFO}
_STDERR = 2
_ERASE_TO_END = "\x1b[K"  # removes the rest of a progress line under the cursor
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


def set_up_logging(verbose: int, debug: bool, style: str = "pretty") -> None:
    """Log to stderr; call it after the app is imported, so that the app can configure logging first.

    With `verbose`, the lines that handlers print are logged too, also if the app configures logging.
    """
    _add_console(verbose, debug, style, current_redactor(), terminal=sys.stderr.isatty())


def set_up_child_logging(settings: Settings) -> None:
    """Log as the worker that started this child does; without -v and JSON, Python prints warnings and errors."""
    console = os.environ.get(CONSOLE_VARIABLE, "")
    verbose = console.count("v")
    if verbose or settings.log_format == "json":
        redactor = Redactor(settings.sensitive)
        _add_console(verbose, False, settings.log_format, redactor, terminal="t" in console)


def describe_console(verbose: int) -> str:
    """The value of `CONSOLE_VARIABLE`: a `v` for each -v, and a `t` if stderr is a terminal."""
    return "v" * verbose + ("t" if sys.stderr.isatty() else "")


def stop_logging_output() -> None:
    """No longer log what handlers print."""
    output_log.handlers.clear()
    output_log.setLevel(logging.WARNING)


def hide_outcomes() -> None:
    """Do not log the outcome of each job to a terminal on which a worker shows its jobs."""
    for handler in [each for each in logging.root.handlers if is_console(each)]:
        if isinstance(handler, logging.StreamHandler) and handler.stream.isatty():
            handler.addFilter(lambda record: not (record.name == outcome_log.name and hasattr(record, "job")))


def _add_console(verbose: int, debug: bool, style: str, redactor: Redactor, *, terminal: bool) -> None:
    level = _LEVELS.get(verbose, logging.DEBUG)
    with_time = verbose > 0 or not (terminal or "JOURNAL_STREAM" in os.environ)  # the journal adds the time itself
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(style, redactor, with_time=with_time, debug=debug, terminal=terminal))
    if verbose:
        logging.getLogger("tenure").setLevel(level)
        output_log.setLevel(logging.INFO)
        output_log.addHandler(handler)
    if logging.root.handlers:
        return
    if verbose:
        logging.root.setLevel(level)  # for the records of handlers, which have loggers of any name
    logging.root.addHandler(handler)
    if style == "json":
        progress_log.addHandler(handler)


def print_progress(text: str, style: str) -> None:
    """Print a line for people to stdout; a log file, and a JSON console instead of stdout, receive it as a record."""
    progress_log.info("%s", text)
    if style != "json":
        click.echo(text)


def print_from_signal_handler(text: str, style: str) -> None:
    """As `print_progress`, to stderr, without buffers and locks: the signal may have interrupted a log call."""
    record = logging.makeLogRecord({
        "name": progress_log.name, "levelno": logging.INFO, "levelname": "INFO", "msg": "%s", "args": (text,)
    })  # fmt: skip
    handlers = [each for each in progress_log.handlers if isinstance(each, logging.StreamHandler)]
    for handler in handlers:
        os.write(handler.stream.fileno(), f"{handler.format(record)}\n".encode())
    if style != "json" and not any(isinstance(each, LogFileHandler) and each.is_stderr for each in handlers):
        os.write(_STDERR, f"{text}\n".encode())


def json_formatter() -> "JsonLineFormatter | None":
    """The formatter of the JSON log, if this process has one."""
    formatters = [handler.formatter for handler in logging.root.handlers]
    return next((each for each in formatters if isinstance(each, JsonLineFormatter)), None)


def is_console(handler: logging.Handler) -> bool:
    """Whether `set_up_logging` added this handler."""
    return isinstance(handler.formatter, OneLineFormatter | JsonLineFormatter)


def _formatter(style: str, redactor: Redactor, *, with_time: bool, debug: bool, terminal: bool) -> logging.Formatter:
    if style == "json":
        return JsonLineFormatter(redactor)
    return OneLineFormatter(redactor, with_time=with_time, debug=debug, terminal=terminal)


class OneLineFormatter(logging.Formatter):
    """Text for people; an exception is shown by its type and message, its traceback only with --debug.

    A record of a running job begins with the id and the handler of the job.
    """

    def __init__(self, redactor: Redactor, *, with_time: bool, debug: bool, terminal: bool) -> None:
        time_format = "%H:%M:%S" if terminal else None
        super().__init__(f"{'%(asctime)s ' if with_time else ''}%(levelname)s: %(job_prefix)s%(message)s", time_format)
        self._redactor = redactor
        self._debug = debug
        self._end = _ERASE_TO_END if terminal else ""

    def format(self, record: logging.LogRecord) -> str:
        fields = {**record.__dict__, "job_prefix": _job_prefix()}
        if self._debug:
            text = super().format(logging.makeLogRecord(fields))
            return printable(self._redactor.text(text)) + self._end
        plain = logging.makeLogRecord({**fields, "exc_info": None, "exc_text": None, "stack_info": None})
        error = record.exc_info[1] if record.exc_info else None
        cause = f": {type(error).__qualname__}: {error}" if error else ""
        return one_line(self._redactor.text(super().format(plain) + cause)) + self._end


def _job_prefix() -> str:
    """As `019a9250-7c3e-7a1f send_welcome: `; empty outside a job."""
    try:
        context = current_context()
    except LookupError:
        return ""
    return f"{short_id(context.id)} {context.handler}: "


class JsonLineFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger and message, then the fields given in `extra`."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or current_redactor()

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {
            name: value
            for name, value in record.__dict__.items()
            if name not in _STANDARD_FIELDS and name not in fields
        }
        if record.exc_info and (error := record.exc_info[1]):
            fields["exception"] = f"{type(error).__qualname__}: {error}"
            fields["trace"] = "".join(traceback.format_exception(error))
        masked = self._redactor.mask(fields)
        return escape_controls(msgspec.json.encode(masked, enc_hook=repr).decode("utf-8", "backslashreplace"))


class LogFileHandler(logging.StreamHandler):  # type: ignore[type-arg] # generic only in the stubs
    """Writes to the file that the pattern names now: `worker-%Y-%m-%d.log` changes its file at midnight.

    If stderr is /dev/null, as in a detached worker, stderr is redirected to the log file too.
    """

    def __init__(self, pattern: str) -> None:
        self._file = DatedLogFile(pattern)
        super().__init__(self._open())
        self.is_stderr = os.path.samestat(os.fstat(_STDERR), os.stat(os.devnull))  # noqa: PTH116 - one of two alike
        self._redirect_stderr()

    def attach(self, settings: Settings, *, debug: bool) -> None:
        """Send log records and the progress log to the file; call it after `set_up_logging`."""
        self._file.keep = settings.log_keep
        self._file.prune()
        formatter = _formatter(settings.log_format, current_redactor(), with_time=True, debug=debug, terminal=False)
        self.setFormatter(formatter)
        if self.is_stderr:
            for console in [each for each in logging.root.handlers if is_console(each)]:
                logging.root.removeHandler(console)
                progress_log.removeHandler(console)
                output_log.removeHandler(console)
        output_log.addHandler(self)
        logging.root.addHandler(self)
        progress_log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self._file.is_outdated(self.stream):
            self._open_next()
        super().emit(record)

    def restore_stderr(self) -> None:
        """Point stderr to /dev/null again, before the process restarts itself."""
        if self.is_stderr:
            with Path(os.devnull).open("w") as null:
                os.dup2(null.fileno(), _STDERR)

    def _open_next(self) -> None:
        """If the folder no longer exists, keep writing to the old file: no line is lost."""
        try:
            old = self.setStream(self._open())
        except CommandError:
            return
        self._redirect_stderr()
        if old:
            old.close()

    def _redirect_stderr(self) -> None:
        if self.is_stderr:
            os.dup2(self.stream.fileno(), _STDERR)

    def _open(self) -> TextIO:
        try:
            return self._file.open()
        except OSError as error:
            raise CommandError(f"the log file {self._file.name!r} cannot be opened: {error.strerror}") from error
