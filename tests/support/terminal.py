"""Commands on a pseudo terminal, as a person sees them."""

import os
import subprocess
from collections.abc import Mapping, Sequence

WAIT_SECONDS = 200


def run_on_terminal(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a command writes to both of its outputs."""
    outside, inside = os.openpty()
    given = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen(command, env=given, stdout=inside, stderr=inside)
    os.close(inside)
    written = b""
    while chunk := _read(outside):
        written += chunk
    os.close(outside)
    process.wait(WAIT_SECONDS)
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
