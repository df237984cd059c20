"""Launch: a fresh process that gives up what a program may not have, and then becomes that program.

Run as a script: setting limits between fork and exec is not safe in a process with threads.
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
            sys.exit(CANNOT_RUN)  # the worker died before it could take us along
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _limit(limits)
    try:
        os.execv(executable, argv)  # noqa: S606 - that there is no shell is the point
    except OSError as error:
        sys.exit(f"{executable} cannot be run: {error.strerror}")


def _limit(limits: str) -> None:
    import resource

    for pair in limits.strip("-").split():
        name, _, value = pair.partition("=")
        kind = getattr(resource, name)
        most = resource.getrlimit(kind)[1]
        wanted = int(value) if most == resource.RLIM_INFINITY else min(int(value), most)
        resource.setrlimit(kind, (wanted, wanted))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
