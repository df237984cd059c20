"""`tenure enqueue`: one job, described on the command line."""

from typing import Any

import click
import msgspec

from tenure.app import Tenure
from tenure.backends.url import without_secrets
from tenure.cli import output
from tenure.cli.app_loader import app_with_handlers
from tenure.cli.arguments import number_or_text, parse_microseconds, parse_time
from tenure.cli.errors import CommandError
from tenure.cli.queue_names import find_queue
from tenure.clock import to_datetime


@click.command()
@click.argument("handler")
@click.option(
    "--payload", metavar="JSON", help="The input of the handler; for a function, an object with its arguments."
)
@click.option("--queue", metavar="NAME", help="Instead of the handler's own queue.")
@click.option("--priority", metavar="N", help="0 to 9 (higher runs sooner), or low, normal, high.")
@click.option("--delay", metavar="TIME", help="Start only after this time: 90, 30s, 10m, '1h 30m'.")
@click.option("--at", metavar="TIME", help="Start only at this time: 2026-03-29T02:30, 'tomorrow 09:00'.")
@click.option("--expires", metavar="TIME", help="Expire the job unless it starts within this time: 90, 30s, 10m.")
@click.option("--name", metavar="TEXT", help="A name for people to read.")
@click.option("--tag", "tags", metavar="WORD", multiple=True, help="A word to find the job by; may be repeated.")
@click.option("--max-retries", type=int, metavar="N", help="How often to retry after a failure.")
@click.option("--timeout", metavar="TIME", help="How long one attempt may take.")
@click.option("--idempotency-key", metavar="TEXT", help="Jobs with the same key take effect once.")
@click.option("--idempotency-ttl", metavar="TIME", help="For how long a success with the key counts: 1h, 2d.")
@click.option("--single-instance", is_flag=True, default=None, help="Never run two jobs of the same name at once.")
@click.option("--at-most", type=int, metavar="N", help="Run at most N jobs of this handler, or of the key, at once.")
@click.option("--rate", metavar="RATE", help="Start no more jobs of this handler, or of the key, than 60/min or 10/s.")
@click.option("--key", metavar="TEXT", help="What --at-most and --rate count by, such as a tenant.")
@click.option("--breaker", metavar="NAME", help="Wait while this circuit breaker is open.")
@click.option("--unique", metavar="TEXT", help="Do nothing while another job with this text waits or runs.")
@output.json_option
def enqueue(
    handler: str,
    payload: str | None,
    at: str | None,
    expires: str | None,
    tags: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Put one job for HANDLER on its queue, and print its id."""
    if at is not None and options["delay"] is not None:
        raise CommandError("give either --delay TIME or --at TIME")
    with app_with_handlers() as app:
        if app.backend.in_process and not app.backend.runs_on_put:
            raise CommandError(
                f"a job at {without_secrets(app.settings.url)!r} would be gone when this command ends; use a backend "
                "that processes share, such as sqlite:///jobs.db, or enqueue the job in the process of the worker"
            )
        given = {name: _parse_option(name, value) for name, value in options.items() if value is not None}
        if at is not None:
            given["at"] = to_datetime(parse_time(app, at))
        if expires is not None:
            given["expires_at"] = to_datetime(app.clock.now() + parse_microseconds(expires, "--expires"))
        if tags:
            given["tags"] = tags
        if "queue" in given:
            given["queue"] = find_queue(app, given["queue"])
        id = app.define(handler, _parse_payload(app, handler, payload)).options(**given).dispatch()
    if as_json:
        output.print_json({"id": id})
    else:
        click.echo(id)


def _parse_payload(app: Tenure, handler: str, text: str | None) -> Any:
    if text is None:
        takes_arguments = app.registry.get(handler).bind is not None
        return {} if takes_arguments else None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise CommandError(f"--payload is not JSON: {error}; in a shell, put it in single quotes") from None


def _parse_option(name: str, value: Any) -> Any:
    """Plain numbers are seconds and priorities; `options()` checks everything else."""
    if name == "priority" and value.isdecimal():
        return int(value)
    return number_or_text(value) if name in ("delay", "timeout", "idempotency_ttl") else value
