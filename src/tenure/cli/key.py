"""`tenure key`: the keys that sign messages."""

from collections import Counter
from collections.abc import Iterator

import click

from tenure.app import Tenure
from tenure.backends.asking import DeadLetters, Scannable
from tenure.cli import printing
from tenure.cli.failures import CommandError
from tenure.cli.loading import any_app
from tenure.wire.signing import kid_of, new_key

PAGE = 1000
SAMPLE = 10_000  # heads: a fifth of a second on SQLite


@click.group()
def key() -> None:
    """Make, list and retire signing keys."""


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


@key.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the keys of the ring, without their secrets."""
    with any_app() as app:
        ring = app.channel().wire.ring
    found = [
        {
            "kid": kid,
            "use": "signs" if kid == ring.kid else "verifies",
            "queues": scope.queues if (scope := ring.scopes.get(kid)) else None,
            "handlers": scope.handlers if scope else None,
        }
        for kid in ring.kids
    ]
    if as_json:
        printing.as_json(found)
    else:
        rows = [[each["kid"], each["use"], _limit(each["queues"]), _limit(each["handlers"])] for each in found]
        printing.table(["kid", "use", "queues", "handlers"], rows)


@key.command()
@click.argument("kid")
@click.option("--all", "every", is_flag=True, help="Look at every message, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def retire(kid: str, every: bool, as_json: bool) -> None:
    """Tell whether KID can be taken out of the ring: how many messages still need it.

    Looks at 10 000 waiting messages and as many dead letters, unless told to look at all.
    """
    with any_app() as app:
        _check(app, kid)
        found = {
            "waiting": _tally(_waiting(app), kid, None if every else SAMPLE),
            "dead": _tally(_dead(app), kid, None if every else SAMPLE),
        }
    if as_json:
        printing.as_json({"kid": kid, **found})
    else:
        _tell(kid, found)
    if any(each["need"] for each in found.values()):
        raise SystemExit(1)


def _check(app: Tenure, kid: str) -> None:
    ring = app.channel().wire.ring
    if kid not in ring.kids:
        raise CommandError(f"no key {kid!r} is in the ring; it holds: {', '.join(ring.kids)}")
    if kid == ring.kid:
        raise CommandError(f"key {kid!r} signs new messages; put another one first, then retire this one")


def _tally(heads: Iterator[bytes], kid: str, most: int | None) -> dict[str, int | bool]:
    """How many of these messages were sealed with this key, and whether all of them were looked at."""
    seen: Counter[bool] = Counter()
    for head in heads:
        if most is not None and seen.total() >= most:
            return {"seen": seen.total(), "need": seen[True], "complete": False}
        seen[kid_of(head) == kid] += 1
    return {"seen": seen.total(), "need": seen[True], "complete": True}


def _waiting(app: Tenure) -> Iterator[bytes]:
    if not isinstance(app.backend, Scannable):
        raise CommandError("this backend cannot show its waiting messages; retire the key when all of them are gone")
    heads, cursor = app.backend.heads(limit=PAGE)
    yield from heads
    while cursor is not None:
        heads, cursor = app.backend.heads(limit=PAGE, cursor=cursor)
        yield from heads


def _dead(app: Tenure) -> Iterator[bytes]:
    after: tuple[int, str] | None = None
    while isinstance(app.backend, DeadLetters) and (page := app.backend.dead(limit=PAGE, after=after)):
        yield from (record.body or b"" for record in page)
        after = (page[-1].finished_at or 0, page[-1].id)


def _tell(kid: str, found: dict[str, dict[str, int | bool]]) -> None:
    for words, tally in (("waiting messages", found["waiting"]), ("dead letters", found["dead"])):
        rest = "" if tally["complete"] else "; there are more: --all looks at every one"
        click.echo(f"{tally['need']} of {tally['seen']} {words} need key {kid!r}{rest}")
    if any(each["need"] for each in found.values()):
        click.echo("keep it until they are gone, or they will be refused", err=True)
    elif all(each["complete"] for each in found.values()):
        click.echo("take it out of TENURE_KEYS of every worker", err=True)


def _limit(names: object) -> str:
    return "all" if names is None else ", ".join(map(str, names)) or "none"  # type: ignore[call-overload]
