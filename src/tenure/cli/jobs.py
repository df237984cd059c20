"""`tenure jobs`: single jobs, wherever they are in their lives."""

from collections.abc import Mapping
from typing import Any

import click

from tenure.app import Tenure
from tenure.backends.contract import Fate, Inspectable
from tenure.cli import printing, records
from tenure.cli.failures import CommandError
from tenure.cli.loading import any_app
from tenure.definition.progress import Progress

_TOLD: dict[Fate, str] = {"cancelled": "cancelled", "asked": "asked to stop, because it is running"}


@click.group()
def jobs() -> None:
    """Look at single jobs, and cancel them."""


@jobs.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(id: str, as_json: bool) -> None:
    """Show everything that is known about a job."""
    with any_app() as app:
        found = records.everything(records.find(app, id), app.channel().wire)
    display(found, as_json)


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cancel(ids: tuple[str, ...], as_json: bool) -> None:
    """End waiting jobs at once, and ask running ones to stop."""
    with any_app() as app:
        fates = app.cancel_many(ids)
        refused = "; ".join(_refusal(app, id, fate) for id, fate in fates.items() if fate not in _TOLD)
    if as_json:
        printing.as_json(fates)
    else:
        for id, fate in fates.items():
            if fate in _TOLD:
                click.echo(f"{printing.text(id)} {_TOLD[fate]}")
    if refused:
        raise CommandError(refused)


def display(found: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        printing.as_json(found)
        return
    failures, progress = found["failures"], found["progress"]
    told = {
        "progress": progress and str(Progress(**progress)),
        "cancel_asked": found["cancel_asked"] or None,
        "failures": None,
        "run": _took(found["run"]) or None,
    }
    printing.facts({**found, **told})
    for failure in failures:
        place = f" ({failure['place']})" if failure["place"] else ""
        story = f"{failure['type']}: {failure['message']}{place}"
        whose = f" on {printing.text(failure['worker'])}" if failure["worker"] else ""
        took = f" ({_took(failure['run'])})" if failure["run"] else ""
        when = f"attempt {failure['attempt']} at {printing.text(failure['at'])}{whose}{took}"
        click.echo(f"{when}: {printing.text(story)}")
    if failures and failures[-1]["trace"]:
        click.echo(printing.text(failures[-1]["trace"]), nl=False)


def _took(run: Mapping[str, Any] | None) -> str:
    """As `waited 0.2 s, ran 1.5 s, cpu 0.7 s, peak 31 MB`, as far as it is known."""
    if run is None:
        return ""
    parts = [
        ("waited", run["wait"], printing.seconds),
        ("ran", run["seconds"], printing.seconds),
        ("cpu", run["cpu"], printing.seconds),
        ("peak", run["memory"], printing.megabytes),
        ("on", run["worker"], printing.text),
    ]
    return ", ".join(f"{word} {show(value)}" for word, value, show in parts if value is not None)


def _refusal(app: Tenure, id: str, fate: Fate) -> str:
    if fate == "unknown":
        return f"no job {id!r} is known here; it may have been trimmed, or live on another backend"
    record = app.backend.find(id) if isinstance(app.backend, Inspectable) else None
    return f"job {id!r} cannot be cancelled any more: it is {record.state if record else 'over'}"
