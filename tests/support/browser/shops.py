"""Shops: the example app `examples.shop` on a backend of any kind, filled with a day of jobs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from examples.shop.day import HOURS, fill
from examples.shop.jobs import shop
from tenure import Tenure
from tenure.testing import FakeClock

END = datetime(2026, 11, 15, 14, 32, 8, tzinfo=UTC)  # when the day of the shop ends, and what its clock shows


@dataclass(frozen=True)
class Shop:
    """An open app and its clock, which stands still unless a test moves it."""

    app: Tenure
    clock: FakeClock


@contextmanager
def filled_shop(url: str, **settings: Any) -> Iterator[Shop]:
    """A shop on an empty backend, filled."""
    clock = FakeClock(END - timedelta(hours=HOURS))
    with shop(url, clock, **settings) as app:
        fill(app, clock)
        yield Shop(app, clock)


@contextmanager
def copied_shop(template: Path, folder: Path, **settings: Any) -> Iterator[Shop]:
    """A shop on a copy of a SQLite file that was filled before: filling takes a second, copying none."""
    for file in template.iterdir():
        shutil.copy2(file, folder / file.name)
    clock = FakeClock(END)
    with shop(f"sqlite:///{folder}/shop.db?synchronous=normal", clock, **settings) as app:
        yield Shop(app, clock)


def fill_template(folder: Path) -> Path:
    """A folder with the SQLite file of a filled shop and its key."""
    with filled_shop(f"sqlite:///{folder}/shop.db?synchronous=normal"):
        pass
    return folder
