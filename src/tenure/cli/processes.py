"""Several worker processes side by side: started, told to stop and waited for together.

A child that dies is not replaced; children stop when this process dies (on Linux).
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from tenure.cli.signals import STOPPING

_PR_SET_PDEATHSIG = 1


def run(arguments: Sequence[str], count: int) -> int:
    """Run `tenure` with these arguments `count` times at once; returns the worst exit code."""
    children: list[subprocess.Popen[bytes]] = []
    told: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        told.append(number)
        for child in children:
            child.send_signal(number)

    for number in STOPPING:
        signal.signal(number, forward)
    while len(children) < count and not told:
        children.append(_start(arguments))
    return max((_exit_code(child.wait(), told) for child in children), default=0)


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tenure", *arguments],
        env={**os.environ, "TERM": "dumb"},  # several live lines would write over each other
        process_group=0,  # Ctrl-C reaches this process alone, which passes it on once
        preexec_fn=_stop_with_parent(),
    )


def _stop_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _exit_code(code: int, told: Sequence[int]) -> int:
    """As a shell counts it; a child that was stopped before it could listen ended as it was told."""
    if code >= 0:
        return code
    return 0 if -code in told else 128 - code
