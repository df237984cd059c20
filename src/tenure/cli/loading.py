"""Finding and importing the app that a command works on."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from tenure.app import Tenure
from tenure.backends.sql.sqlite.opening import file_of
from tenure.cli import logs
from tenure.cli.failures import CommandError
from tenure.redaction import Redactor
from tenure.settings import load

_WHERE = 'tell me where your app is: --app module:attr, TENURE_APP, or app = "module:attr" in tenure.toml'


@contextmanager
def any_app(*, create: bool = False) -> Iterator[Tenure]:
    """The app that was named, else one made of the settings alone: it has no handlers.

    Unless asked to, looking creates nothing: an empty database in the wrong folder would only mislead.
    """
    named = location()
    app = find(named) if named else Tenure()
    if not create:
        _check_file(app.settings.url)
    with _ready(app):
        yield app


@contextmanager
def app_as_deployed() -> Iterator[tuple[Tenure, bool]]:
    """The app that was named, with its modules, or one made of the settings alone; and whether it has handlers."""
    named = location()
    with app_with_handlers() if named else any_app() as app:
        if named:
            _check_file(app.settings.url)
        yield app, bool(named)


@contextmanager
def app_with_handlers() -> Iterator[Tenure]:
    """The app that was named, with the modules of its settings imported."""
    named = location()
    if not named:
        raise CommandError(_WHERE)
    app = find(named)
    for module in app.settings.modules:
        _importing(module, app.discover)
    with _ready(app):
        yield app


def find(place: str) -> Tenure:
    """The app at `module:attr`, looked for from the current directory on."""
    module, separator, attribute = place.partition(":")
    if not (module and separator and attribute):
        raise CommandError(f"{place!r} does not say where your app is: write module:attr, such as shop.jobs:app")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    imported = _importing(module, importlib.import_module)
    try:
        app = attrgetter(attribute)(imported)
    except AttributeError:
        raise CommandError(f"module {module!r} has no attribute {attribute!r}; is it spelled as in the code?") from None
    if not isinstance(app, Tenure):
        raise CommandError(f"{place!r} is of type {type(app).__qualname__}, not a Tenure app")
    return app


def location() -> str | None:
    """Where the app was said to be, on the command line or in the settings."""
    named: str | None = _option("app")
    return named or load(environment=os.environ).app


def _option(name: str) -> Any:
    return click.get_current_context().find_root().params[name]


def _importing(module: str, load_it: Callable[[str], Any]) -> Any:
    try:
        return load_it(module)
    except Exception as error:
        message = f"module {module!r} cannot be imported: {type(error).__qualname__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            message += "; run this in the folder that holds it, or put that on PYTHONPATH"
        raise CommandError(message) from error


def _check_file(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and file_of(parts).parent.is_dir() and not file_of(parts).exists():
        raise CommandError(
            f"there is no database at {str(file_of(parts))!r}: nothing was enqueued there yet; "
            "is this the right folder, or does TENURE_URL name another?"
        )


@contextmanager
def _ready(app: Tenure) -> Iterator[None]:
    click.get_current_context().find_root().obj = Redactor(app.settings.sensitive)
    if _option("log_format"):
        app.settings = msgspec.structs.replace(app.settings, log_format=_option("log_format"))
    logs.set_up(_option("verbose"), _option("debug"), app.settings.log_format)
    try:
        yield
    finally:
        app.close()
