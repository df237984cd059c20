"""`manage.py tenure …`: every command of Tenure, with the app of this project.

The child processes and further workers that a command starts import the app by the environment variable
DJANGO_SETTINGS_MODULE and the import path of this process.
"""

import os
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from django.conf import ENVIRONMENT_VARIABLE
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from tenure.cli.main import cli
from tenure.integrations.django.checks import TAG
from tenure.integrations.django.current_app import current_configuration
from tenure.settings.environment import COMMAND_URL

LOCATION = "tenure.integrations.django.app:app"
_DJANGO_OPTIONS = ("--settings", "--pythonpath")  # ManagementUtility has used them
_CHECKED = ("work", "cron", "dashboard")  # they go on for long, so they begin with Django's system checks


class Command(BaseCommand):
    """Passes its arguments on."""

    help = "Run a command of Tenure, such as `work`; `tenure --help` lists them."
    requires_system_checks = ()

    def run_from_argv(self, argv: Sequence[str]) -> None:
        name = f"{os.path.basename(argv[0])} {argv[1]}"  # noqa: PTH119
        run(name, without_django_options(argv[2:]), self._check, start_of_services(argv))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        try:
            run(f"{os.path.basename(prog_name)} {subcommand}", ["--help"], self._check)  # noqa: PTH119
        except SystemExit as end:
            if end.code:
                raise

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs="...", help="what follows `tenure` on the command line")

    def handle(self, *args: Any, arguments: Sequence[str] = (), **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """For `call_command("tenure", "jobs", "list")`."""
        try:
            run("tenure", list(arguments), self._check)
        except SystemExit as end:
            if end.code:
                raise CommandError(f"tenure ended with exit code {end.code}", returncode=int(end.code)) from end

    def _check(self, command: str) -> None:
        if command in _CHECKED:
            self.check(tags=[TAG])


def run(prog_name: str, arguments: Sequence[str], check: Any, start: list[str] | None = None) -> None:
    """Run a command of Tenure; it ends with SystemExit, as on the command line."""
    share_import_path()
    given = list(arguments)
    use_url(given)
    check(given[0] if given else "")
    if given[:1] == ["work"] and current_configuration().moves_outbox and "--with-outbox" not in given:
        given.insert(1, "--with-outbox")  # not at the end, which may follow a `--`
    connections.close_all()  # a process that the command forks must not share them
    cli(args=["--app", LOCATION, *given], prog_name=prog_name, obj=start)


def start_of_services(argv: Sequence[str]) -> list[str]:
    """How the files of `tenure service` start Tenure: as this process was started, with the settings that it uses."""
    return [sys.executable, os.path.abspath(argv[0]), argv[1], f"--settings={os.environ[ENVIRONMENT_VARIABLE]}"]  # noqa: PTH100


def use_url(arguments: Sequence[str]) -> None:
    """Let the option `--url` hold already for the checks, which build the app; the command removes it at its end."""
    for each, following in zip_longest(arguments, arguments[1:]):
        url = each.partition("=")[2] if each.startswith("--url=") else following if each == "--url" else None
        if url:
            os.environ[COMMAND_URL] = url


def share_import_path() -> None:
    """Let child processes import what this process imports, also if it was not started in the folder of manage.py."""
    own = [path for path in sys.path[:2] if path and os.path.isdir(path)]  # noqa: PTH112
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*own, *(each for each in before if each)]))


def without_django_options(arguments: Sequence[str]) -> list[str]:
    """The arguments without those that Django's own command line has used."""
    kept: list[str] = []
    given = iter(arguments)
    for each in given:
        if each in _DJANGO_OPTIONS:
            next(given, None)
        elif not each.startswith(tuple(f"{name}=" for name in _DJANGO_OPTIONS)):
            kept.append(each)
    return kept
