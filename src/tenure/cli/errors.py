"""Errors of the command line: one line on stderr and an exit code; a traceback only with --debug."""

import logging
import traceback
from typing import IO, Any

import click

from tenure.redaction import Redactor, default_redactor, one_line, printable

EXIT_JOBS_DIED = 1
EXIT_REFUSED = 2
EXIT_UNEXPECTED = 3


class CommandError(click.ClickException):
    """A command cannot do what the user asked; shown as `Error: …` on one line."""

    exit_code = EXIT_REFUSED

    def __init__(self, message: str) -> None:
        super().__init__(one_line(current_redactor().text(message)))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error; as a record where the log is JSON, so that every line of it is."""
        from tenure.cli.logs import json_formatter  # it imports this module

        formatter = json_formatter()
        if formatter is None:
            super().show(file)
            return
        fields = {
            "name": "tenure",
            "levelno": logging.ERROR,
            "levelname": "ERROR",
            "msg": "%s",
            "args": (self.message,),
        }
        click.echo(formatter.format(logging.makeLogRecord(fields)), err=True)


class UnexpectedError(CommandError):
    """An exception that Tenure does not raise on purpose."""

    exit_code = EXIT_UNEXPECTED


def to_click_exception(error: Exception, *, debug: bool) -> click.ClickException:
    """The exception to raise instead of `error`, so that click prints it on one line with the right exit code."""
    from tenure.errors import TenureError  # imported here to keep --help fast

    cause = error.__cause__ if isinstance(error, click.ClickException) else error
    if debug and cause:
        trace = "".join(traceback.format_exception(cause))
        click.echo(printable(current_redactor().text(trace)), err=True, nl=False)
    if isinstance(error, click.ClickException):
        return error
    if isinstance(error, TenureError):
        return CommandError(str(error))
    return UnexpectedError(f"{type(error).__qualname__}: {error}{'' if debug else '; --debug shows the traceback'}")


def current_redactor() -> Redactor:
    """The redactor of the app's settings; before the app is loaded, the default one."""
    context = click.get_current_context(silent=True)
    known = context.find_root().obj if context else None
    return known if isinstance(known, Redactor) else default_redactor()
