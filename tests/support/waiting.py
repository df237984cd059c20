"""Waits of tests: they end as soon as a condition holds, and their limits are reached only by broken code."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

WAIT_SECONDS = 60.0  # a busy machine needs ten seconds to start a worker
STOP_SECONDS = 25.0  # less than the stop grace of 30 s, at whose end a worker stops anyway

Answer = TypeVar("Answer")


def is_alive(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for yet, a zombie, has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def eventually(condition: Callable[[], Answer], seconds: float = WAIT_SECONDS) -> Answer:
    """Ask until the answer is true, and return it; fail when it stays false for too long."""
    give_up = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < give_up, f"not true after {seconds:g} s: {condition}"
        time.sleep(0.005)  # the condition depends on another process or thread, which sends no signal
    return answer
