"""The `command` handler: runs a declared console command; a message names a command, it cannot define one."""

import importlib
import inspect
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from tenure.builtin.authorisation import CheckedShape, check_arguments, check_texts
from tenure.builtin.program import program_limits, run_program
from tenure.definition.callables import is_async, refuse_generator, refuse_lazy
from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.definition.payload import Shape
from tenure.errors import CommandFailed, InvalidHandler, Refused
from tenure.permissions import Argument, Command, check_order

_TIMEOUT = 86_400.0
_MAX_OUTPUT = 65_536
_SCRIPT = "import sys; from {module} import {first}; sys.argv[0] = {name!r}; sys.exit({attribute}())"
CommandTarget = str | tuple[str, ...] | Callable[..., Any]


class Commands:
    """The commands of an app by name, from its settings and its code."""

    def __init__(self, declared: Mapping[str, Command]) -> None:
        self._targets: dict[str, CommandTarget] = {name: command.run for name, command in declared.items()}
        self._arguments = {name: command.arguments for name, command in declared.items()}

    def add(self, name: str, target: Callable[..., Any], arguments: Sequence[Argument] | None) -> None:
        if name in self._targets:
            raise InvalidHandler(f"a command is already declared under {name!r}; choose another name")
        _check_target(name, target)
        check_order(tuple(arguments or ()))
        self._targets[name] = target
        self._arguments[name] = None if arguments is None else tuple(arguments)

    def authorise(self, payload: str | list[str]) -> tuple[str, list[str]]:
        """The name and the arguments in a payload; raises Refused if they are not declared."""
        name, *given = _words(payload)
        if not self._targets:
            raise Refused(
                f"command {name!r:.80} may not run: none is declared; declare it with app.command({name!r:.80}, …) "
                'or in a table such as [tool.tenure.command.report] with run = "shop.cli:report"'
            )
        if name not in self._targets:
            raise Refused(f"command {name!r:.80} is not declared (declared: {', '.join(sorted(self._targets))})")
        declared = self._arguments[name]
        if declared is not None:
            check_arguments(f"command {name!r}", given, declared)
        elif given and isinstance(self._targets[name], tuple):
            raise Refused(f"command {name!r} takes no arguments: its declaration has no 'arguments' to check them by")
        check_texts(f"command {name!r}", given)
        return name, given

    def run(self, context: Context, payload: str | list[str]) -> Any:
        name, given = self.authorise(payload)
        target = self._targets[name]
        if isinstance(target, tuple):
            limits = program_limits(context, _TIMEOUT, _MAX_OUTPUT)
            result = run_program(f"command {name!r}", [*_argv(name, target), *given], limits)
            result.check(f"command {name!r}")
            return result.out.text()
        function = _load(name, target) if isinstance(target, str) else target
        return _call(name, function, given, declared=self._arguments[name] is not None)


def command_handler(commands: Commands) -> Handler:
    """Payload: the command line as a text or a list of texts, whose first word is the declared name."""
    shape = CheckedShape(Shape(str | list[str]), commands.authorise)
    return Handler(key="command", shape=shape, call=commands.run, is_async=False)


def _words(payload: str | list[str]) -> list[str]:
    try:
        words = shlex.split(payload) if isinstance(payload, str) else payload
    except ValueError as error:
        raise Refused(f"the command line cannot be split into words: {error}", reason="invalid_payload") from None
    if not words:
        raise Refused("a command job needs the name of a command", reason="invalid_payload")
    return words


def _argv(name: str, run: tuple[str, ...]) -> list[str]:
    """The argv that runs a module or an installed script in a new Python process."""
    if run[0] == "-m":
        return [sys.executable, *run]
    from importlib.metadata import entry_points  # it takes 10 ms

    found = next(iter(entry_points(group="console_scripts", name=run[0])), None)
    if found is None:
        raise LookupError(f"command {name!r} runs the script {run[0]!r}, which is not installed here")
    first = found.attr.partition(".")[0]
    return [
        sys.executable,
        "-c",
        _SCRIPT.format(module=found.module, first=first, name=run[0], attribute=found.attr),
        *run[1:],
    ]


def _load(name: str, place: str) -> Callable[..., Any]:
    """The callable at `module:callable`; the name comes from the settings, never from a message."""
    module, _, attribute = place.partition(":")
    found = attrgetter(attribute)(importlib.import_module(module))
    if not callable(found):
        raise InvalidHandler(f"{place!r} is declared as a command but is {type(found).__qualname__}, not callable")
    _check_target(name, found)
    return found  # type: ignore[no-any-return]


def _check_target(name: str, target: Any) -> None:
    """Refuse what a console script cannot be: a call of a coroutine or generator function runs none of its code."""
    if not callable(target):
        raise InvalidHandler(f"command {name!r} needs a callable, got {type(target).__qualname__}")
    code = getattr(target, "callback", target)  # of a click command
    if is_async(code):
        raise InvalidHandler(f"command {name!r} is a coroutine function; call it with asyncio.run in a plain function")
    refuse_generator(code, f"command {name!r}")


def _call(name: str, function: Callable[..., Any], given: list[str], *, declared: bool) -> Any:
    """Call it as its console script would; its result or exit code says whether it failed."""
    try:
        if hasattr(function, "make_context"):
            result = _call_click(name, function, given)
            refuse_lazy(result, f"command {name!r}")
            return result
        if not inspect.signature(function).parameters:
            if given:
                raise Refused(f"command {name!r} takes no arguments, and was given {len(given)}")
            result = function()
        elif given and not declared:
            raise Refused(f"command {name!r} takes no arguments: its declaration has no 'arguments' to check them by")
        else:
            result = function(given)
    except SystemExit as exit:
        if isinstance(exit.code, str):
            raise CommandFailed(f"command {name!r} ended with: {exit.code}", 1) from None
        result = exit.code
    if isinstance(result, int) and not isinstance(result, bool):
        if result:
            raise CommandFailed(f"command {name!r} ended with exit code {result}", result)
        return None
    refuse_lazy(result, f"command {name!r}")
    return result


def _call_click(name: str, command: Any, given: list[str]) -> Any:
    import click  # imported on use: only click commands need it

    try:
        context = command.make_context(name, list(given))
    except click.exceptions.Exit as exit:  # --help
        return _check_exit(name, exit.exit_code)
    except click.UsageError as error:
        message = f"command {name!r} does not take these arguments: {error.format_message()}"
        raise Refused(message, reason="invalid_payload") from None
    try:
        with context:
            return command.invoke(context)
    except click.exceptions.Exit as exit:
        return _check_exit(name, exit.exit_code)
    except click.ClickException as error:
        raise CommandFailed(f"command {name!r} failed: {error.format_message()}", error.exit_code) from error
    except click.Abort:
        raise CommandFailed(f"command {name!r} was aborted", 1) from None


def _check_exit(name: str, code: int) -> None:
    if code:
        raise CommandFailed(f"command {name!r} ended with exit code {code}", code)
