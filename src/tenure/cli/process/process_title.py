"""The name of our processes in `ps` and `top`."""

import ctypes
import sys
from importlib import import_module

_PR_SET_NAME = 15


def set_process_title(title: str) -> None:
    """Use setproctitle if it is installed; else Linux shows the first 15 bytes, and other systems no title."""
    try:
        import_module("setproctitle").setproctitle(title)
    except ImportError:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_NAME, title.encode())
