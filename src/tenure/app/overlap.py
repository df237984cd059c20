"""Overlap: sends one thing while the next is made, for whoever waits for a server in between."""

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def overlapped(send: Callable[[T], R], items: Iterable[T], is_last: Callable[[T], bool]) -> Iterator[tuple[T, R]]:
    """Each item with its answer, in order; it is sent from a thread while the next is made in the caller's.

    One that looks like the last is sent at once. If making one fails, what was sent before is answered first.
    """
    with concurrent.futures.ThreadPoolExecutor(1, "tenure-put") as thread:
        under_way: list[tuple[T, concurrent.futures.Future[R]]] = []
        try:
            for item in items:
                yield from _answers(under_way)
                if is_last(item):
                    yield item, send(item)
                else:
                    under_way.append((item, thread.submit(send, item)))
        except Exception:
            yield from _answers(under_way)
            raise
        yield from _answers(under_way)


def _answers(under_way: list[tuple[T, "concurrent.futures.Future[R]"]]) -> Iterator[tuple[T, R]]:
    while under_way:
        item, answer = under_way.pop()
        yield item, answer.result()
