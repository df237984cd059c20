"""Times on the command line of `tenure cron`."""

from datetime import datetime

import click

from tenure.app import Tenure
from tenure.cli.failures import CommandError
from tenure.clock import to_microseconds
from tenure.definition.zones import find_zone

at_time = click.option("--at", "at", metavar="TIME", help="As if it were this time, such as 2026-03-29T02:30.")


def moment_of(app: Tenure, text: str | None) -> int:
    """A time of the command line, by the clock of the app unless it says otherwise."""
    if text is None:
        return app.clock.now()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text!r} is not a time; write it as 2026-03-29T02:30 or 2026-03-29T02:30+01:00") from None
    return to_microseconds(moment if moment.tzinfo else moment.replace(tzinfo=find_zone(app.settings.timezone)))


def zoned(local: datetime) -> str:
    return local.isoformat(" ", timespec="minutes")
