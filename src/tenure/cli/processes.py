"""Workers in processes of their own, started by this command with the same options; and starting this one over.

On Linux the workers stop when the process that started them dies.
"""

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from tenure.cli.signals import HEARD
from tenure.worker.crew import Member
from tenure.worker.notices import Notices, Notifier
from tenure.worker.supervisor import Supervisor

_PR_SET_PDEATHSIG = 1


def run(arguments: Sequence[str], workers: int, *, bounded: bool, silent: bool) -> int:
    """Keep so many processes running `tenure` with these arguments; returns the worst exit code.

    The standard error of `silent` ones leads nowhere, unless they have a log file of their own.
    """

    def start() -> Member:
        notices = Notices()
        try:
            return Member(_start(arguments, notices.address, silent=silent), notices)
        except OSError:
            notices.close()
            raise

    return Supervisor(start, workers, Notifier(os.environ), bounded=bounded).run()


def command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tenure", *arguments]


def start_over(unless: Callable[[], bool]) -> None:
    """Become a fresh process with the same command line and number; the code is imported as it is now."""
    atexit._run_exitfuncs()  # what was left to do at the end: this is one
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)  # from here on they wait for the new life, which will listen
    if unless():
        return
    Notifier(os.environ).tell(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell is wanted


def _start(arguments: Sequence[str], address: str, *, silent: bool) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TERM": "dumb", "NOTIFY_SOCKET": address}  # live lines would write over each other
    environment.pop("WATCHDOG_PID", None)
    return subprocess.Popen(
        command(arguments),
        env=environment,
        stderr=subprocess.DEVNULL if silent else None,
        process_group=0,  # Ctrl-C reaches this process alone, which passes it on once
        preexec_fn=_stop_with_parent(),
    )


def _stop_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
