"""The init process of a container: as process 1, `tenure` runs its command in a child and waits for every process.

The kernel makes two differences for process 1, which a worker must not meet. It ignores a signal without a handler, so
that a SIGTERM during the start would be lost. And it gets every process whose parent has ended, such as a program that
a killed job had started: each stays a zombie, and keeps its place in the limit of processes, until process 1 waits for
it. A container with an init process of its own, as with `docker run --init`, never comes here.
"""

import os
import signal
import sys
from contextlib import suppress

_NOT_FORWARDED = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP,
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS,
}  # fmt: skip


def become_init() -> None:
    """Return in a child of process 1; process 1 itself stays here, and ends with the exit code of the child.

    Call it before any thread starts.
    """
    forwarded = signal.valid_signals() - _NOT_FORWARDED
    waited = {*forwarded, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)  # a blocked signal waits, even for process 1
    child = os.fork()
    if child == 0:
        _take_terminal()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os._exit(_serve(child, waited))  # what Python does at its end belongs to the child


def _take_terminal() -> None:
    """Ctrl-C must reach the command once: not from the terminal, and again from process 1."""
    os.setpgid(0, 0)
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # the terminal stops a background process that takes it
    with suppress(OSError, ValueError):  # there is no terminal
        os.tcsetpgrp(sys.stdin.fileno(), os.getpid())
    signal.signal(signal.SIGTTOU, before)


def _serve(child: int, waited: set[signal.Signals]) -> int:
    """Forward signals and wait for processes until the child has ended; its exit code, as a shell counts it."""
    while True:
        number = signal.sigwait(waited)
        if number != signal.SIGCHLD:
            with suppress(ProcessLookupError):
                os.kill(child, number)
        elif (status := _reap(child)) is not None:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _reap(child: int) -> int | None:
    """Wait for every process that has ended; the status of the child if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                found = ended[1]
    return found
