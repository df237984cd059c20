"""What `ps` and `top` call our processes: the title that setproctitle gives, if it is installed, else a short name."""

import ctypes
import sys
from importlib import import_module

_PR_SET_NAME = 15


def set_title(title: str) -> None:
    """Linux keeps the first 15 bytes of a name; other systems need setproctitle."""
    try:
        import_module("setproctitle").setproctitle(title)
    except ImportError:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_NAME, title.encode())
