"""Counts the functions that some code calls: a cost that a loaded machine does not change."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tenure

_PACKAGE = f"{Path(tenure.__file__).parent}/"


def calls_of(run: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """How often each function of Tenure, and each function written in C, is called while this runs."""
    ours: Counter[str] = Counter()
    in_c: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_PACKAGE):
            ours[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            in_c[argument.__name__] += 1

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return ours, in_c
