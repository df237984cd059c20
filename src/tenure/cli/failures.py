"""How errors reach a person: one line on stderr and an exit code; a traceback only for --debug."""

import traceback

import click

from tenure.redaction import Redactor, one_line, printable, usual

JOBS_DIED = 1
REFUSED = 2
UNEXPECTED = 3


class CommandError(click.ClickException):
    """A command cannot do what it was asked; shown as `Error: …` on one line."""

    exit_code = REFUSED

    def __init__(self, message: str) -> None:
        super().__init__(one_line(redactor().text(message)))


class Unexpected(CommandError):
    """Something failed that nobody had thought of."""

    exit_code = UNEXPECTED


def told(error: Exception, *, debug: bool) -> click.ClickException:
    """What to raise in place of an error, so that it is shown as a person wants it."""
    from tenure.errors import TenureError  # only now: --help must stay quick

    cause = error.__cause__ if isinstance(error, click.ClickException) else error
    if debug and cause:
        click.echo(printable(redactor().text("".join(traceback.format_exception(cause)))), err=True, nl=False)
    if isinstance(error, click.ClickException):
        return error
    if isinstance(error, TenureError):
        return CommandError(str(error))
    return Unexpected(f"{type(error).__qualname__}: {error}{'' if debug else '; --debug shows the traceback'}")


def redactor() -> Redactor:
    """That of the app's settings, once the app is known."""
    context = click.get_current_context(silent=True)
    known = context.find_root().obj if context else None
    return known if isinstance(known, Redactor) else usual()
