"""An app with jobs of every kind of end, and a browser of sorts that reads event streams."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from tenure import Context, Tenure
from tests.support.waiting import WAIT_SECONDS


@dataclass
class Scene:
    """An app, and jobs of it; the job `slow` says when it runs, and waits until it may end."""

    app: Tenure
    add: Any
    fail: Any
    slow: Any
    started: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        """Run what is ready."""
        self.app.worker(burst=True).run()

    @contextmanager
    def working(self) -> Iterator[None]:
        """A worker in a thread; it stops when nothing is ready any more."""
        thread = threading.Thread(target=self.work)
        thread.start()
        try:
            yield
        finally:
            self.released.set()
            thread.join()


@pytest.fixture
def scene(tmp_path) -> Iterator[Scene]:
    with Tenure(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal") as app:

        @app.job
        def add(a: int, b: int) -> int:
            return a + b

        @app.job
        def fail() -> None:
            raise ValueError("no luck")

        @app.job
        def slow(ctx: Context) -> str:
            ctx.progress(40, 100)
            made.started.set()
            assert made.released.wait(WAIT_SECONDS)
            return "at last"

        made = Scene(app, add, fail, slow)
        yield made
        made.released.set()


@pytest.fixture
def own_threads() -> Callable[[], set[str]]:
    """The names of the threads that live and were started in this test."""
    before = set(threading.enumerate())
    return lambda: {thread.name for thread in set(threading.enumerate()) - before}


@dataclass(frozen=True)
class Event:
    name: str
    data: Any
    id: str | None


class Stream:
    """An open event stream; iterates over its events, without comments."""

    def __init__(self, address: str, path: str, headers: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=WAIT_SECONDS)
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        while line := self.response.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if line != b"\n":
                fields[name] = value
            elif "data" in fields:
                yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
                fields = {}
            else:
                fields = {}

    def close(self) -> None:
        self.response.close()
        self.connection.close()


@pytest.fixture
def follow() -> Iterator[Callable[..., Stream]]:
    """Opens event streams, and closes them at the end."""
    opened: list[Stream] = []

    def open_stream(address: str, path: str, **headers: str) -> Stream:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        opened.append(Stream(address, path, named))
        return opened[-1]

    yield open_stream
    for each in opened:
        each.close()
