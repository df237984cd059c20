"""`tenure key`: making the keys that sign messages."""

import click

from tenure.wire.signing import new_key


@click.group()
def key() -> None:
    """Make signing keys."""


@key.command()
@click.option("--kid", metavar="NAME", help="The name of the key; else one is made up.")
def new(kid: str | None) -> None:
    """Print a fresh key."""
    click.echo(new_key(kid).dump())
    click.echo(
        "Put this line into TENURE_KEYS, or into a file named by TENURE_KEYS_FILE, of every producer and worker. "
        "To change keys, first add the new one after the old one everywhere, then put it first: the first key signs.",
        err=True,
    )
