"""Echo: passes on what a child writes to its standard error, line by line, and remembers the last of it.

On a thread, so that a slow reader of the worker's own standard error holds up the child that writes, and nobody else.
"""

import os
import threading
from collections import deque
from contextlib import suppress

_LINES = 20
_LONGEST = 1 << 16  # of a line without an end; the rest follows as if it were a line of its own
_STANDARD_ERROR = 2


class Echo:
    """Ends, and closes its descriptor, when the last process that can write to it is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._last: deque[bytes] = deque(maxlen=_LINES)
        self._thread = threading.Thread(target=self._run, name="tenure-echo", daemon=True)
        self._thread.start()

    def last_lines(self, wait: float) -> str:
        """What was said last, once the child has ended; waits this long for the end of it."""
        self._thread.join(wait)
        return b"\n".join(self._last).decode("utf-8", "replace").strip()

    def _run(self) -> None:
        rest = b""
        while data := os.read(self._descriptor, _LONGEST):
            *lines, rest = (rest + data).split(b"\n")
            self._say(lines)
            if len(rest) >= _LONGEST:
                self._say([rest])
                rest = b""
        if rest:
            self._say([rest])
        os.close(self._descriptor)

    def _say(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self._last.extend(lines)
        text = memoryview(b"".join(line + b"\n" for line in lines))
        with suppress(OSError):  # nobody listens to us any more
            while text:
                text = text[os.write(_STANDARD_ERROR, text) :]
