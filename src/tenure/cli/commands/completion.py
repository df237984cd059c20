"""`tenure completion`: the script that lets a shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

from tenure.cli.errors import CommandError


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; put `eval "$(tenure completion bash)"` into ~/.bashrc."""
    found = get_completion_class(shell)
    if found is None:
        raise CommandError(f"this version of click has no completion for {shell!r}")
    click.echo(found(ctx.find_root().command, {}, "tenure", "_TENURE_COMPLETE").source())
