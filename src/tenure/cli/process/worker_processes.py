"""Starts processes: workers under a supervisor, a worker in the background, and this process again.

On Linux the workers of a supervisor stop when the supervisor dies.
"""

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from select import select

import click

from tenure.cli.errors import EXIT_JOBS_DIED, CommandError
from tenure.cli.process.signals import HANDLED_SIGNALS
from tenure.supervisor.probe_file import StateNotifier
from tenure.supervisor.sd_notify import NotifySocket, SystemdNotifier
from tenure.supervisor.supervisor import Supervisor, WorkerProcess

_PR_SET_PDEATHSIG = 1
_EXIT_POLL_SECONDS = 0.05
_SUCCESS = (0, EXIT_JOBS_DIED)  # a bounded worker may end before the command sees it ready


def supervise(arguments: Sequence[str], workers: int, *, notifier: StateNotifier, bounded: bool, silent: bool) -> int:
    """Keep this many processes running `tenure` with these arguments; returns the worst exit code.

    `silent` workers have /dev/null as stderr, unless they have their own log file.
    """

    def start() -> WorkerProcess:
        notices = NotifySocket()
        try:
            return WorkerProcess(_start_worker(arguments, notices.address, notifier.watchdog, silent=silent), notices)
        except OSError:
            notices.close()
            raise

    return Supervisor(start, workers, notifier, bounded=bounded).run()


def start_detached(arguments: Sequence[str]) -> None:
    """Start a worker in its own session and return when it is ready; raise the reason if it is not."""
    with closing(NotifySocket()) as notices:
        process = subprocess.Popen(
            _command(arguments),
            env={**os.environ, "NOTIFY_SOCKET": notices.address},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # a worker with a log file redirects it there
            start_new_session=True,
        )
        _wait_until_ready(process, notices)
    click.echo(f"Working in the background, pid {process.pid}")
    process.returncode = 0  # the process keeps running: Popen must not warn about it


def restart(unless: Callable[[], bool]) -> None:
    """Replace this process by a new one with the same command line and pid, which imports the code again."""
    atexit._run_exitfuncs()  # execv does not run them
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # the new process unblocks and handles them
    if unless():
        return
    SystemdNotifier(os.environ).notify(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell is wanted


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tenure", *arguments]


def _start_worker(
    arguments: Sequence[str], address: str, watchdog: float | None, *, silent: bool
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "NOTIFY_SOCKET": address}
    environment.pop("WATCHDOG_PID", None)
    if watchdog is not None:
        environment["WATCHDOG_USEC"] = str(round(watchdog * 1e6))  # the supervisor kills a worker that hangs
    return subprocess.Popen(
        _command(arguments),
        env=environment,
        stderr=subprocess.DEVNULL if silent else None,
        process_group=0,  # Ctrl-C reaches only the supervisor, which passes it on once
        preexec_fn=_stop_with_parent(),
    )


def _stop_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_until_ready(process: subprocess.Popen[bytes], notices: NotifySocket) -> None:
    cause = "it reported no reason"
    while True:
        code = process.poll()
        select([notices], [], [], 0 if code is not None else _EXIT_POLL_SECONDS)
        for notice in notices.receive():
            cause = notice.get("STATUS", cause)
            if "READY" in notice:
                return
        if code in _SUCCESS:
            return
        if code is not None:
            raise CommandError(f"the worker ended before it was ready, with code {code}: {cause}")
