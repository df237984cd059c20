"""The entry point of `tenure`: a command's module is imported only when the command runs, so that --help is fast."""

import os
import signal
import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from tenure import __version__
from tenure.cli.errors import to_click_exception

_COMMANDS = {
    "work": "Run jobs until stopped.",
    "enqueue": "Put one job on its queue.",
    "health": "Count jobs per queue and state.",
    "dashboard": "Show and change everything in a browser.",
    "doctor": "Check the live system against the settings.",
    "jobs": "List, show, retry, reschedule and cancel jobs.",
    "explain": "Say why a job is not running, or how it ended.",
    "queues": "List, pause, resume and drain queues.",
    "workers": "List, drain and resume workers.",
    "guards": "List, show and reset locks, rates and breakers.",
    "audit": "List what users did, the newest first.",
    "outbox": "Move, list and retry jobs of application databases.",
    "cron": "Inspect schedules and run the scheduler.",
    "dead": "List, replay, export and purge dead letters.",
    "reap": "Return the jobs of crashed workers to their queues.",
    "clean": "Delete records that are past their retention.",
    "purge": "Delete ended jobs for good.",
    "db": "Bring the database schema up to date.",
    "key": "Make, list and retire signing keys.",
    "config": "Print the JSON schema of the settings file.",
    "init": "Write a settings file and an example app.",
    "service": "Print configurations for systemd and supervisor.",
    "completion": "Print the completion script for your shell.",
}


_COMPLETE = "_TENURE_COMPLETE"  # a shell sets it to ask for completions
_WITHOUT_BACKEND = ("config", "init", "service", "completion")
_REMOTE = ("health", "jobs", "dead", "queues", "workers", "cron")


def _add_url_option(command: click.Command) -> None:
    """Give a command, or each command of a group, the option --url; also a group that is a command itself."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _add_url_option(each)
        if not command.invoke_without_command:
            return
    if not any(option.name == "url" for option in command.params):
        help_text = "The backend to use: a URL, or a name from the setting 'backends'; else the URL of the app."
        command.params.append(
            click.Option(["--url"], metavar="URL", help=help_text, callback=_use_url, expose_value=False)
        )


def _use_url(ctx: click.Context, option: click.Parameter, url: str | None) -> None:  # noqa: ARG001 - click's signature
    if url:
        from tenure.settings.environment import COMMAND_URL

        os.environ[COMMAND_URL] = url  # child processes use it too
        ctx.find_root().call_on_close(lambda: os.environ.pop(COMMAND_URL, None))


class LazyGroup(click.Group):
    """Finds each command in the module of its name, and imports that module only to run the command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"tenure.cli.commands.{cmd_name}"), cmd_name)
        if cmd_name not in _WITHOUT_BACKEND:
            _add_url_option(command)
        if _COMPLETE in os.environ:
            from tenure.cli.completion import add_names

            add_names(cmd_name, command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the command that the user may have meant; click knows only commands that are imported."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}.{_suggestion(name)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        name = ctx._protected_args[0] if ctx._protected_args else None
        if ctx.params["remote"] and name not in _REMOTE:
            raise click.UsageError(
                f"{name} cannot use a remote dashboard; these commands can: {', '.join(_REMOTE)}", ctx
            )
        try:
            return super().invoke(ctx)
        except (click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            raise to_click_exception(error, debug=ctx.params["debug"]) from None


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # takes 10 ms: imported only for this message

    found = get_close_matches(name.lower(), _COMMANDS, n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--app", metavar="MODULE:ATTR", help="Where your app is; else TENURE_APP, else the setting 'app'.")
@click.option("--remote", metavar="URL", help="Use the dashboard at this address instead of a backend.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option("-v", "--verbose", count=True, help="Log more; twice for everything.")
@click.option("--log-format", type=click.Choice(["pretty", "json"]), help="How to log; else the setting 'log_format'.")
@click.version_option(__version__, prog_name="tenure")
@click.pass_context
def cli(ctx: click.Context, /, **options: object) -> None:  # noqa: ARG001 - commands read them from the context
    """Background jobs and schedules that are never lost."""
    ctx.color = _use_colours()


def _use_colours() -> bool | None:
    """NO_COLOR and FORCE_COLOR decide; without them click uses colours only on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def main() -> None:
    """Run the command `tenure`."""
    if os.getpid() == 1:
        from tenure.cli.process.container_init import become_init  # only in a container

        become_init()
    if _COMPLETE in os.environ:
        from tenure.cli.completion import complete

        sys.exit(complete(cli))
    try:
        cli(prog_name="tenure")
    finally:
        ignore_handled_signals()


def ignore_handled_signals() -> None:
    """Python removes its handlers when it exits: a late signal would kill a process at the end of a graceful stop."""
    for number in signal.valid_signals() - {signal.SIGCHLD}:  # an ignored SIGCHLD would change how children end
        handler = signal.getsignal(number)
        if callable(handler) and handler is not signal.default_int_handler:
            signal.signal(number, signal.SIG_IGN)
