"""`tenure reap`: expired leases go back to their place; every worker does the same by itself."""

from collections import Counter

import click

from tenure.cli import printing
from tenure.cli.loading import any_app
from tenure.cli.queues import known


@click.command()
@click.argument("queues", metavar="[QUEUE...]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reap(queues: tuple[str, ...], as_json: bool) -> None:
    """Return the jobs of workers that vanished, of these queues or of all."""
    with any_app() as app:
        names = [app.queues.resolve(queue) for queue in queues] or known(app)
        reaped = app.backend.reap(names)
    if as_json:
        printing.as_json(reaped)
        return
    for queue, count in Counter(each.queue for each in reaped).items():
        crashes = sum(each.crashed for each in reaped if each.queue == queue)
        click.echo(f"{printing.text(queue)}: {count} jobs went back, {crashes} of them charged with a crash")
    if not reaped:
        click.echo("no lease has expired")
