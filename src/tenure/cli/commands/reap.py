"""`tenure reap`: return jobs whose lease expired to their queues; every worker does the same by itself."""

from collections import Counter

import click

from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.commands.queues import known_queues
from tenure.cli.queue_names import find_queue


@click.command()
@click.argument("queues", metavar="[QUEUE...]", nargs=-1)
@output.json_option
def reap(queues: tuple[str, ...], as_json: bool) -> None:
    """Return the jobs of crashed workers to their queues: to the named queues, or to all."""
    with any_app() as app:
        names = [find_queue(app, queue) for queue in queues] or known_queues(app)
        reaped = app.backend.reap(names, suspect_after=app.settings.suspect_after)
    if as_json:
        output.print_json(reaped)
        return
    for queue, count in Counter(each.queue for each in reaped).items():
        crashes = sum(each.crashed for each in reaped if each.queue == queue)
        click.echo(f"{output.format_value(queue)}: {count} jobs returned, {crashes} of them charged with a crash")
    if not reaped:
        click.echo("no lease has expired")
