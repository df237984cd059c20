"""Completes what a user types in bash, zsh or fish: commands, options, and names of queues, handlers and schedules.

A shell waits for the answer and shows what is printed, so that this prints nothing but the answer, never asks a server,
and gives up after ten seconds. Names come from the settings and the app, which is imported for them: this takes 0.2 s
of processor time, and what the modules of the app take.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

if TYPE_CHECKING:
    from tenure.app import Tenure  # imported only when a name is completed

VARIABLE = "_TENURE_COMPLETE"
_MOST_SECONDS = 10.0  # for a busy machine; usually it takes 0.3
_MOST_NAMES = 200

ReadNames = Callable[["Tenure"], Iterable[str]]


def complete(cli: click.Command) -> int:
    """Answer the shell that started this process; the exit code is 1 if there is nothing to say."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))  # a module of the app may catch any exception
    signal.setitimer(signal.ITIMER_REAL, _MOST_SECONDS)
    for shell in (BashWords, ZshWords, FishWords):
        add_completion_class(shell)
    try:
        return shell_complete(cli, {}, "tenure", VARIABLE, os.environ[VARIABLE])
    except Exception:  # the user sees no completions, and a command shows the error
        return 1


def add_names(path: str, command: click.Command) -> None:
    """Let the parameters of a command, and of the commands in it, complete names."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            add_names(f"{path} {name}", each)
    for parameter in command.params:
        read = _SOURCES.get(f"{path} {parameter.name}") or _SOURCES.get(parameter.name or "")
        if read is not None:
            parameter.type = Names(read)
        elif parameter.name in _FILES:
            parameter.type = click.Path()


class BashWords(BashComplete):
    """bash takes = and : for words of their own, and replaces only what follows the last of them."""

    def get_completion_args(self) -> tuple[list[str], str]:
        before, typed = super().get_completion_args()
        words = [word for word in [*before, typed] if word != "="]
        joined: list[str] = []
        for word in words:
            if joined and word and (word == ":" or joined[-1].endswith(":")):
                joined[-1] += word
            else:
                joined.append(word)
        return joined[:-1], joined[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        kept = len(incomplete.rpartition(":")[0]) + 1 if ":" in incomplete else 0
        return [CompletionItem(each.value[kept:], each.type) for each in super().get_completions(args, incomplete)]


class ZshWords(ZshComplete):
    """zsh replaces the whole word --queue=emails."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return _with_option(incomplete, super().get_completions(args, incomplete))


class FishWords(FishComplete):
    """fish replaces the whole word too."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return _with_option(incomplete, super().get_completions(args, incomplete))


def _with_option(incomplete: str, items: list[CompletionItem]) -> list[CompletionItem]:
    option, separator, _ = incomplete.partition("=")
    if not (separator and option.startswith("-")):
        return items
    return [CompletionItem(f"{option}={each.value}", each.type, each.help) for each in items]


class Names(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """Names that begin with what the user has typed."""

    name = "name"

    def __init__(self, read: ReadNames) -> None:
        self._read = read

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        given = ctx.params.get(param.name or "") or ()
        used = set(given) if isinstance(given, tuple) else set()
        with ctx.scope(cleanup=False), redirect_stdout(io.StringIO()):  # what the app prints is no name
            known = set(self._read(_app()))
        names = [name for name in known if name.startswith(incomplete) and name not in used]
        return [CompletionItem(name) for name in sorted(names)[:_MOST_NAMES]]


def _app() -> "Tenure":
    """The app that the user named, with its modules, or one made from the settings."""
    from tenure.app import Tenure
    from tenure.cli.app_loader import app_location, import_app

    try:
        location = app_location()
        app = import_app(location) if location else Tenure()
        app.discover(*app.settings.modules)
    except Exception:  # code of the user; the settings name queues and lanes without it
        return Tenure()
    return app


def _queues(app: "Tenure") -> Iterable[str]:
    return app.queues.names


def _handlers(app: "Tenure") -> Iterable[str]:
    return app.registry.keys()


def _lanes(app: "Tenure") -> Iterable[str]:
    return app.settings.lanes


def _schedules(app: "Tenure") -> Iterable[str]:
    return (schedule.name for schedule in app.schedules.all())


def _backends(app: "Tenure") -> Iterable[str]:
    return app.settings.backends


def _keys(app: "Tenure") -> Iterable[str]:
    return (key.partition(":")[0] for key in app.settings.keys)


def _reasons(app: "Tenure") -> Iterable[str]:  # noqa: ARG001 - every source has the same arguments
    from tenure.app.explain.decide import DEAD_REASONS

    return DEAD_REASONS


_FILES = ("pid_file", "log_file")
# By the name of the parameter, or by the command and the name where a name means several things.
_SOURCES: dict[str, ReadNames] = {
    "queue": _queues,
    "queues": _queues,
    "handler": _handlers,
    "lanes": _lanes,
    "url": _backends,
    "only": _schedules,
    **{f"cron {command} name": _schedules for command in ("explain", "history", "pause", "preview", "resume")},
    **{f"dead {command} reason": _reasons for command in ("export", "list", "purge", "replay")},
    "key retire kid": _keys,
}
