"""`tenure key`: the keys that sign messages."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from tenure.app import Tenure
from tenure.app.open_backends import SAVED_KEYS
from tenure.backends.job_filter import JobFilter, all_heads
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.errors import CommandError
from tenure.cli.tables import print_table
from tenure.wire.signing import Key, kid_of, new_key, save_key

_SAMPLE = 10_000  # messages: reading their heads takes a fifth of a second on SQLite


@click.group()
def key() -> None:
    """Make, list and retire signing keys."""


@key.command()
@click.option("--kid", metavar="NAME", help="The name of the key; by default a random name.")
@click.option("--save", is_flag=True, help=f"Write it into {SAVED_KEYS} in this folder, where every process finds it.")
def new(kid: str | None, save: bool) -> None:
    """Print a new key, or save it for all processes that start in this folder."""
    made = new_key(kid)
    if save:
        _save(made)
        return
    click.echo(made.dump())
    click.echo(
        "Put this line into TENURE_KEYS, or into a file named by TENURE_KEYS_FILE, of every producer and worker. "
        "To change keys, first add the new one after the old one everywhere, then put it first: the first key signs.",
        err=True,
    )


def _save(made: Key) -> None:
    path = Path.cwd() / SAVED_KEYS
    if path.exists():
        raise CommandError(
            f"{str(path)!r} exists already; to add a key after those in it, run: tenure key new >> {SAVED_KEYS}"
        )
    save_key(path, made)
    click.echo(f"wrote the key {made.kid!r} to {path}")
    click.echo(
        "Processes that start in this folder use it on a server. Keep it secret and out of version control; "
        "on other machines, copy the file into the folder, or set TENURE_KEYS_FILE.",
        err=True,
    )


@key.command("list")
@output.json_option
def list_(as_json: bool) -> None:
    """List the keys of the ring, without their secrets."""
    with any_app() as app:
        ring = app.open_backend().wire.ring
    found = [
        {
            "kid": kid,
            "use": "signs" if kid == ring.kid else "verifies",
            "queues": scope.queues if (scope := ring.scopes.get(kid)) else None,
            "handlers": scope.handlers if scope else None,
            "guards": scope.guards if scope else None,
        }
        for kid in ring.kids
    ]
    if as_json:
        output.print_json(found)
    else:
        rows = [[each["kid"], each["use"], _scope(each["queues"]), _scope(each["handlers"])] for each in found]
        print_table(["kid", "use", "queues", "handlers"], rows)


@key.command()
@click.argument("kid")
@click.option("--all", "read_all", is_flag=True, help="Read every message, however many there are.")
@output.json_option
def retire(kid: str, read_all: bool, as_json: bool) -> None:
    """Count the messages that still need KID, to know whether it can be removed from the ring.

    Reads 10 000 waiting messages and as many dead letters, or all with --all.
    """
    with any_app() as app:
        _check_can_retire(app, kid)
        limit = None if read_all else _SAMPLE
        found = {
            "waiting": _count_users(_waiting_heads(app), kid, limit),
            "dead": _count_users(_dead_letter_heads(app), kid, limit),
        }
    if as_json:
        output.print_json({"kid": kid, **found})
    else:
        _print_counts(kid, found)
    if any(each["need"] for each in found.values()):
        raise SystemExit(1)


def _check_can_retire(app: Tenure, kid: str) -> None:
    ring = app.open_backend().wire.ring
    if kid not in ring.kids:
        raise CommandError(f"no key {kid!r} is in the ring; it contains: {', '.join(ring.kids)}")
    if kid == ring.kid:
        raise CommandError(f"key {kid!r} signs new messages; put another one first, then retire this one")


def _count_users(heads: Iterator[bytes], kid: str, limit: int | None) -> dict[str, int | bool]:
    """How many of these messages were signed with this key, and whether all of them were read."""
    seen: Counter[bool] = Counter()
    for head in heads:
        if limit is not None and seen.total() >= limit:
            return {"seen": seen.total(), "need": seen[True], "complete": False}
        seen[kid_of(head) == kid] += 1
    return {"seen": seen.total(), "need": seen[True], "complete": True}


def _waiting_heads(app: Tenure) -> Iterator[bytes]:
    if app.backend.control is None:
        raise CommandError("this backend cannot show its waiting messages; retire the key when all of them are gone")
    return all_heads(app.backend.control)


def _dead_letter_heads(app: Tenure) -> Iterator[bytes]:
    if app.backend.dead_letters is not None:
        for page in app.dead_letters().search(JobFilter()):
            yield from (record.body or b"" for record in page)


def _print_counts(kid: str, found: dict[str, dict[str, int | bool]]) -> None:
    for words, counts in (("waiting messages", found["waiting"]), ("dead letters", found["dead"])):
        rest = "" if counts["complete"] else "; there are more: --all reads all of them"
        click.echo(f"{counts['need']} of {counts['seen']} {words} need key {kid!r}{rest}")
    if any(each["need"] for each in found.values()):
        click.echo("keep it until they are gone; without it workers refuse them", err=True)
    elif all(each["complete"] for each in found.values()):
        click.echo("remove it from TENURE_KEYS of every worker", err=True)


def _scope(names: object) -> str:
    return "all" if names is None else ", ".join(map(str, names)) or "none"  # type: ignore[call-overload]
