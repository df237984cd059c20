"""`tenure completion`: what a shell needs to complete commands and options."""

import click
from click.shell_completion import get_completion_class

from tenure.cli.failures import CommandError


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete commands; `eval "$(tenure completion bash)"` in ~/.bashrc."""
    found = get_completion_class(shell)
    if found is None:
        raise CommandError(f"this release of click knows no completion for {shell!r}")
    click.echo(found(ctx.find_root().command, {}, "tenure", "_TENURE_COMPLETE").source())
