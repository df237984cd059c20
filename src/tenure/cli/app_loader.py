"""Find and import the app that a command uses, set up logging, and close the app at the end.

A worker or scheduler that starts while its server is down waits here until the server answers.
"""

import importlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from tenure.app import Tenure
from tenure.backends.url import sqlite_file
from tenure.cli.errors import CommandError
from tenure.cli.logs import set_up_logging, stop_logging_output
from tenure.errors import BackendUnavailable
from tenure.redaction import Redactor
from tenure.settings import load
from tenure.supervisor.probe_file import StateReporter
from tenure.worker.roles import GrowingDelay

_NO_APP = 'say where your app is: --app module:attr, TENURE_APP, or app = "module:attr" in tenure.toml'


@contextmanager
def any_app(*, create: bool = False) -> Iterator[Tenure]:
    """The app that the user named, or else an app without handlers made from the settings.

    Unless `create` is set, a missing SQLite database is an error: a new, empty one in the wrong folder would mislead.
    """
    location = app_location()
    app = import_app(location) if location else Tenure()
    if not create:
        _check_database_exists(app.settings.url)
    with _opened(app):
        yield app


@contextmanager
def app_as_deployed(*, create: bool = False) -> Iterator[tuple[Tenure, bool]]:
    """The app that the user named, with its modules, or one made from the settings; and whether it has handlers.

    Unless `create` is set, a missing SQLite database is an error.
    """
    location = app_location()
    with app_with_handlers() if location else any_app(create=create) as app:
        if location and not create:
            _check_database_exists(app.settings.url)
        yield app, bool(location)


@contextmanager
def app_with_handlers() -> Iterator[Tenure]:
    """The app that the user named; the modules of its settings are imported."""
    location = app_location()
    if not location:
        raise CommandError(_NO_APP)
    app = import_app(location)
    for module in app.settings.modules:
        _import(module, app.discover)
    with _opened(app):
        yield app


def import_app(location: str) -> Tenure:
    """The app at `module:attr`; the current directory is on the import path."""
    module, separator, attribute = location.partition(":")
    if not (module and separator and attribute):
        raise CommandError(f"{location!r} does not say where your app is: write module:attr, such as shop.jobs:app")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    imported = _import(module, importlib.import_module)
    try:
        app = attrgetter(attribute)(imported)
    except AttributeError:
        raise CommandError(f"module {module!r} has no attribute {attribute!r}; check the spelling") from None
    if not isinstance(app, Tenure):
        raise CommandError(f"{location!r} is of type {type(app).__qualname__}, not a Tenure app")
    return app


def app_location() -> str | None:
    """`module:attr` from --app, or else from the settings."""
    named: str | None = _root_option("app")
    return named or load(environment=os.environ).app


def _root_option(name: str) -> Any:
    return click.get_current_context().find_root().params[name]


def _import(module: str, load_module: Callable[[str], Any]) -> Any:
    try:
        return load_module(module)
    except Exception as error:
        message = f"module {module!r} cannot be imported: {type(error).__qualname__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            message += "; run this in the folder that contains it, or add that folder to PYTHONPATH"
        raise CommandError(message) from error


def _check_database_exists(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and sqlite_file(parts).parent.is_dir() and not sqlite_file(parts).exists():
        raise CommandError(
            f"there is no database at {str(sqlite_file(parts))!r}: no job was enqueued there yet; "
            "check that this is the right folder, and the value of TENURE_URL"
        )


@contextmanager
def _opened(app: Tenure) -> Iterator[None]:
    click.get_current_context().find_root().obj = Redactor(app.settings.sensitive)
    if _root_option("log_format"):
        app.settings = msgspec.structs.replace(app.settings, log_format=_root_option("log_format"))
    set_up_logging(_root_option("verbose"), _root_option("debug"), app.settings.log_format)
    try:
        yield
    finally:
        app.close()
        stop_logging_output()


logger = logging.getLogger(__name__)

_WARNING_INTERVAL = 60.0
_START_EXTENSION_MICROSECONDS = 30_000_000  # without it systemd would end a start that takes long


def wait_for_backend(app: Tenure, notifier: StateReporter) -> None:
    """Open the backend; retry while the server does not answer. A file that cannot be opened is an error at once."""
    delays, warn_at = GrowingDelay(first=0.25), 0.0
    while True:
        try:
            app.open_backend()
        except BackendUnavailable as error:
            if app.settings.url.startswith("sqlite:"):
                raise
            if time.monotonic() >= warn_at:
                warn_at = time.monotonic() + _WARNING_INTERVAL
                logger.warning("the backend cannot be reached; this process waits for it: %s", error)
            notifier.notify(
                STATUS=f"waiting for the backend: {error}", EXTEND_TIMEOUT_USEC=_START_EXTENSION_MICROSECONDS
            )
            time.sleep(delays.next())
        else:
            return
