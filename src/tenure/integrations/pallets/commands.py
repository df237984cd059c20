"""`flask tenure …` and `quart tenure …`: every command of Tenure, for the Tenure app of the loaded web application.

Workers start child processes that import the app themselves. They find it in the module `located`
of the integration, which loads the web application as the command did: by the import path, which is passed on in
FLASK_APP or QUART_APP.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import click

from tenure.app.tenure import Tenure
from tenure.cli.main import cli, ignore_handled_signals
from tenure.errors import SettingsError

_loaded: ContextVar[Any] = ContextVar("tenure.web_application")  # by the command that runs in this process


def tenure_command(key: str, framework: str, info_type: type) -> click.Command:
    """The command `key` for the command line of a framework; it takes the arguments of `tenure`."""

    @click.command(
        key,
        add_help_option=False,  # --help is that of the command that is passed on
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        short_help="Run workers, and see and change jobs (Tenure).",
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def command(ctx: click.Context, arguments: tuple[str, ...]) -> None:
        info = ctx.find_object(info_type) or _info(framework, info_type)
        location = f"tenure.integrations.{framework}.located:{key}"
        try:
            with _children_find(info, framework):
                cli.main(["--app", location, *arguments], prog_name=f"{framework} {key}")
        finally:
            atexit.register(ignore_handled_signals)

    return command


def find_app(key: str, framework: str, info_type: type) -> Tenure:
    """The Tenure app of the web application that the command has loaded, or that the environment names."""
    web = _loaded.get(None) or _info(framework, info_type).load_app()
    found = web.extensions.get(key)
    if not isinstance(found, Tenure):
        raise SettingsError(f"the web application {web.name!r} has no Tenure app {key!r}: call init_app on it")
    return found


def _info(framework: str, info_type: type) -> Any:
    return info_type(os.environ.get(_variable(framework)))


def _variable(framework: str) -> str:
    return f"{framework.upper()}_APP"


@contextmanager
def _children_find(info: Any, framework: str) -> Iterator[None]:
    """Load the application of a command, for this process and for those that it starts."""
    variable, token = _variable(framework), _loaded.set(info.load_app())
    before, path = os.environ.get(variable), _import_path(info)
    if path is not None:
        os.environ[variable] = path
    try:
        yield
    finally:
        _loaded.reset(token)
        if before is not None:
            os.environ[variable] = before
        elif path is not None:
            del os.environ[variable]


def _import_path(info: Any) -> str | None:
    """None for a file app.py or wsgi.py in this folder, which children find too."""
    if info.create_app is None:
        path: str | None = info.app_import_path
        return path
    module, name = info.create_app.__module__, info.create_app.__qualname__
    return None if "<" in name else f"{module}:{name}"
