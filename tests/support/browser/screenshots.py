"""Screenshots of all pages for the documentation: `python -m tests.support.browser.screenshots [--only jobs,job]`.

They show the example shop with a clock that stands still, so that a page that has not changed has the same picture.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

from playwright.sync_api import Browser

from examples.shop.day import HOURS, fill
from examples.shop.jobs import shop
from tenure.app.dashboard.access import everything
from tenure.app.dashboard.core import Dashboard
from tenure.app.doctor import collect
from tenure.clock import MICROSECOND
from tenure.testing import FakeClock
from tenure.web import asgi
from tenure.web.passwords import hash_password
from tests.support.browser.dashboards import served_dashboard
from tests.support.browser.pictures import small_png
from tests.support.browser.serving import served
from tests.support.browser.shops import END, Shop
from tests.support.browser.visitor import DESKTOP, PHONE, Visitor, started_chromium, visitor

FOLDER = Path(__file__).resolve().parents[3] / "docs/images/dashboard"
MAX_BYTES = 3_000_000
_USER = "ops"
_KEY = "shop-2026:5LVpVhWskGGlvu67brg2LWVqKvSYFZXliWofCq6CFn8"  # public, and the same for each picture


class Shot(NamedTuple):
    """A page to show; `phone` names the themes of its pictures on a phone, `click` what to press before."""

    name: str
    path: str
    phone: tuple[str, ...] = ()
    click: str | None = None


def shots(filled: Shop) -> list[Shot]:
    """Every page, with the jobs that have something to tell."""
    jobs, letters = filled.app.parts().jobs, filled.app.parts().dead_letters
    assert jobs is not None
    assert letters is not None
    running = jobs.page("leased", "imports", limit=1)[0][0].id
    dead = letters.page(queue="invoices", limit=1)[0].id
    done = [record.id for record in jobs.page("done", "webhooks", limit=2)[0]]
    return [
        Shot("overview", "/", ("light", "dark")),
        Shot("jobs", "/jobs", ("light",)),
        Shot("jobs-filtered", "/jobs?state=parked&queue=invoices"),
        Shot("job", f"/jobs/{dead}", ("dark",)),
        Shot("job-running", f"/jobs/{running}"),
        Shot("compare", f"/jobs/{done[0]}/compare?with={done[1]}"),
        Shot("dead-letters", "/dead", click=".group"),
        Shot("queues", "/queues"),
        Shot("schedules", "/schedules?name=fetch-prices"),
        Shot("workers", "/workers"),
        Shot("guards", "/guards"),
        Shot("doctor", "/doctor"),
        Shot("audit", "/audit"),
        Shot("settings", "/settings?changed=1"),
        Shot("confirm", "/act/jobs.cancel?all=true&filter=queue%3Dimages&back=%2Fjobs"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.browser.screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--only", default="", help="names of pages, separated by commas")
    given = parser.parse_args()
    out, only = given.out.absolute(), set(filter(None, given.only.split(",")))
    out.mkdir(parents=True, exist_ok=True)
    if not only:
        for old in out.glob("*.png"):
            old.unlink()
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        del os.environ[name]
    with started_chromium() as browser, _places() as places:
        for address, wanted in places:
            take(browser, address, [shot for shot in wanted if not only or shot.name in only], out)
    size = sum(picture.stat().st_size for picture in out.glob("*.png"))
    print(f"{len(list(out.glob('*.png')))} pictures in {out}: {size / 1_000_000:.2f} MB")  # noqa: T201
    if size > MAX_BYTES:
        raise SystemExit(f"the pictures take more than {MAX_BYTES / 1_000_000:g} MB: leave some out")


@contextmanager
def _places() -> Iterator[list[tuple[str, list[Shot]]]]:
    """Addresses of dashboards, and what to show there: a filled shop, an empty one, and one that asks who you are."""
    clock = FakeClock(END - timedelta(hours=HOURS))
    with _folder(), ExitStack() as opened:
        app = opened.enter_context(shop("sqlite:///shop.db", clock, app="shop", keys=(_KEY,)))
        dashboard = opened.enter_context(closing(Dashboard(app)))
        fill(app, clock, dashboard.sources.recorder.read_now)
        dashboard.sources.recorder.read_now()
        # The doctor compares the clock of the shop with that of this machine.
        opened.enter_context(patch.object(collect, "time", SimpleNamespace(time=lambda: clock.now() / MICROSECOND)))
        users = {_USER: everything(_USER)}
        empty = opened.enter_context(closing(Dashboard(opened.enter_context(shop("sqlite:///empty.db", clock)))))
        people = {"users": {_USER: {"password": hash_password("none of your business"), "role": "operator"}}}
        closed = opened.enter_context(shop("sqlite:///shop.db", clock, app="shop", keys=(_KEY,), dashboard=people))
        yield [
            (opened.enter_context(served_dashboard(dashboard, users)), shots(Shop(app, clock))),
            (opened.enter_context(served_dashboard(empty, users)), [Shot("first-run", "/jobs")]),
            (
                opened.enter_context(served(opened.enter_context(closing(asgi(closed))))),
                [Shot("sign-in", "/")],
            ),
        ]


@contextmanager
def _folder() -> Iterator[None]:
    """Work in a folder with a name that says nothing about this machine."""
    folder = Path(tempfile.gettempdir()) / "shop"
    folder.mkdir()
    try:
        with chdir(folder):
            yield
    finally:
        shutil.rmtree(folder)


def take(browser: Browser, address: str, wanted: list[Shot], out: Path) -> None:
    """Write the pictures of these pages into a folder."""
    for theme in ("light", "dark"):
        for size, mark in ((DESKTOP, ""), (PHONE, "-phone")):
            chosen = [shot for shot in wanted if not mark or theme in shot.phone]
            looking = visitor(browser, address, size=size, theme=theme)
            looking.context.add_cookies([{"name": "user", "value": _USER, "url": address}])
            for shot in chosen:
                (out / f"{shot.name}{mark}-{theme}.png").write_bytes(_picture(looking, shot))
            looking.context.close()


def _picture(looking: Visitor, shot: Shot) -> bytes:
    response = looking.open(shot.path)
    assert response.status == 200, f"{shot.path} was answered with {response.status}"
    if shot.click is not None:
        looking.page.locator(shot.click).first.click()
        looking.page.mouse.move(0, 0)
    looking.page.evaluate("document.fonts.ready")
    looking.page.wait_for_load_state("networkidle")
    return small_png(looking.page)


if __name__ == "__main__":
    main()
