"""A child process ends with its parent.

It imports little: a child calls it before it imports the app, which takes seconds on a busy machine.
"""

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_PARENT_POLL_SECONDS = 0.5


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends; exit now if the parent has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_exit_after, args=(parent,), name="tenure-parent", daemon=True).start()
    if os.getppid() != parent:
        os._exit(0)


def _exit_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_SECONDS)
    os._exit(0)
