"""The attempts of a job as a table, for people who look at one job on a terminal."""

from collections.abc import Mapping
from typing import Any

import click

from tenure.cli.output import format_seconds
from tenure.cli.tables import Column, print_table

_COLUMNS = (
    Column("attempt", "#"),
    Column("started", show=lambda started: f"{started.astimezone():%m-%d %H:%M:%S}"),
    Column("ran", show=format_seconds, rank=2),
    Column("worker", rank=3),
    Column("state", "outcome"),
    Column("error", rank=1),
)


def print_attempts(details: Mapping[str, Any]) -> None:
    """Print a row for each attempt in the details of a job, the first attempt first."""
    if rows := attempt_rows(details):
        click.echo()
        print_table(_COLUMNS, rows)
        click.echo("\n" if details["failures"] else "", nl=False)


def attempt_rows(details: Mapping[str, Any]) -> list[list[Any]]:
    """Start, duration, worker, outcome and error of each attempt; the last one succeeded if the job is done."""
    failures, run = details["failures"], details["run"]
    rows = [_failure_row(failure, "retried") for failure in failures]
    if failures and details["state"] == "dead":
        rows[-1] = _failure_row(failures[-1], "dead")
    if details["state"] == "done" and run:
        rows.append([len(failures) + 1, run["started"], run["seconds"], run["worker"], "done", None])
    return rows


def _failure_row(failure: Mapping[str, Any], outcome: str) -> list[Any]:
    run = failure["run"] or {}
    place = f" ({failure['place']})" if failure["place"] else ""
    started, seconds = run.get("started") or failure["at"], run.get("seconds")
    error = f"{failure['type']}: {failure['message']}{place}"
    return [failure["attempt"], started, seconds, failure["worker"], outcome, error]
