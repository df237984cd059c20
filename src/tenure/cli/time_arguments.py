"""Durations and times given on the command line; a plain number is a duration in seconds."""

from datetime import datetime

import click

from tenure.app import Tenure
from tenure.cli.errors import CommandError
from tenure.clock import MICROSECOND, to_microseconds
from tenure.definition.cron_expression import find_zone
from tenure.definition.duration import to_seconds

at_option = click.option("--at", "at", metavar="TIME", help="Use this time instead of now, such as 2026-03-29T02:30.")


def number_or_text(text: str) -> float | str:
    """A float if the text is a number; the function that uses the duration checks any other text."""
    return float(text) if text.replace(".", "", 1).isdecimal() else text


def parse_seconds(text: str, option: str) -> float:
    return to_seconds(number_or_text(text), option)


def parse_microseconds(text: str, option: str) -> int:
    return round(parse_seconds(text, option) * MICROSECOND)


def describe_duration(text: str) -> str:
    """The duration as the user wrote it; a plain number gets its unit."""
    return f"{text} s" if isinstance(number_or_text(text), float) else text


def parse_time(app: Tenure, text: str | None) -> int:
    """A time in UTC microseconds, now if no text; a time without an offset is in the app's time zone."""
    if text is None:
        return app.clock.now()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text!r} is not a time; write it as 2026-03-29T02:30 or 2026-03-29T02:30+01:00") from None
    return to_microseconds(moment if moment.tzinfo else moment.replace(tzinfo=find_zone(app.settings.timezone)))
