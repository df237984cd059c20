"""Launcher: a script that sets limits for its own process and then replaces itself with the program of a job.

It is a script because setting limits between fork and exec is not safe in a process with threads. It runs in an
isolated Python, so it imports only the standard library.
Its arguments: the limits as NAME=VALUE, or `-`; the program's path; the program's argv.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
CANNOT_RUN = 127


def main(limits: str, executable: str, argv: list[str]) -> None:
    parent = os.getppid()
    if sys.platform == "linux":
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(CANNOT_RUN)  # the worker died before PDEATHSIG was set
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _set_limits(limits)
    try:
        os.execv(executable, argv)  # noqa: S606 - without a shell on purpose
    except OSError as error:
        sys.exit(f"{executable} cannot be run: {error.strerror}")


def _set_limits(limits: str) -> None:
    import resource

    for pair in limits.strip("-").split():
        name, _, value = pair.partition("=")
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        limit = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
