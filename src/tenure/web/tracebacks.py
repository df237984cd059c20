"""Tracebacks for reading: own frames stand out, frames of libraries are folded, the line that raised is marked.

A traceback is text that a job left behind, so nothing is taken for granted: what is not understood stays as it is.
"""

import re
from dataclasses import dataclass

_FRAME = re.compile(r'\s*File "(?P<path>[^"\n]*)", line \d+')
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3|tenure)[/\\.\d]|<frozen |<string>")
_CARETS = re.compile(r"\s*[~^]+\s*")
_ERROR = re.compile(r"[\w.]+(?:: |$)")
TRACE_LINES = 400


@dataclass(frozen=True)
class TracePart:
    """Lines of one kind: text, own, library, raised or error; `frames` counts the frames of a library part."""

    kind: str
    lines: tuple[str, ...]
    frames: int = 0


def traceback_lines(text: str, limit: int = TRACE_LINES) -> list[TracePart]:
    """The parts of a traceback in their order; the first lines of a longer one are left out."""
    lines = text.rstrip("\n").split("\n")
    left_out, lines = len(lines) - limit, lines[-limit:]
    kinds = _kinds(lines)
    parts = [TracePart("text", (f"… {left_out:,} lines are left out",))] if left_out > 0 else []
    for line, kind in zip(lines, kinds, strict=True):
        frames = int(kind == "library" and _FRAME.match(line) is not None)
        if parts and parts[-1].kind == kind:
            parts[-1] = TracePart(kind, (*parts[-1].lines, line), parts[-1].frames + frames)
        else:
            parts.append(TracePart(kind, (line,), frames))
    return parts


def _kinds(lines: list[str]) -> list[str]:
    """The kind of each line; the source line of the last own frame of each error is the one that raised."""
    kinds: list[str] = []
    current, source = "text", None
    for at, line in enumerate(lines):
        frame = _FRAME.match(line)
        if frame:
            current = "library" if _LIBRARY.search(frame["path"]) else "own"
            kinds.append(current)
        elif line.startswith((" ", "\t")) and current != "text":
            kinds.append(current)
            if current == "own" and not _CARETS.fullmatch(line):
                source = at
        elif current != "text" and _ERROR.match(line):
            kinds.append("error")
            if source is not None:
                kinds[source] = "raised"
                if source + 1 < at and _CARETS.fullmatch(lines[source + 1]):
                    kinds[source + 1] = "raised"
            current, source = "text", None
        else:
            kinds.append("text")
            current = "text"
    return kinds
