"""Reads PromQL: the series that an expression selects, with their labels, and the functions around them.

No grammar: it knows as much as a check of names needs. `promtool` decides what is well-formed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<duration>\d+[smhdwy]\b|\$__\w+)|(?P<number>\d+\.?\d*)"""
    r"""|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^<>=(){}\[\],])|(?P<space>\s+)"""
)
_WORDS = {"and", "or", "unless", "bool", "offset"}
_LABEL_LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}


@dataclass
class Selector:
    """A series by name: its matchers as (label, sign, value), whether it has a range, and the functions around it."""

    name: str
    functions: tuple[str, ...]
    matchers: list[tuple[str, str, str]] = field(default_factory=list)
    is_range: bool = False


@dataclass
class Expression:
    selectors: list[Selector] = field(default_factory=list)
    groupings: list[str] = field(default_factory=list)


def read(text: str) -> Expression:
    """The series and the labels of the groupings; raises ValueError for text that is not PromQL."""
    tokens, found = list(_tokens(text)), Expression()
    _check_brackets(text, [token for _, token in tokens])
    around: list[str] = []
    function = ""
    at = 0
    while at < len(tokens):
        kind, token = tokens[at]
        after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if kind == "name" and token in _LABEL_LISTS:
            end = _find(tokens, ")", at)
            found.groupings += [each for kind, each in tokens[at + 2 : end] if kind == "name"]
            at = end
        elif kind == "name" and (after == "(" or after in _LABEL_LISTS):
            function = token
        elif kind == "name" and token not in _WORDS:
            found.selectors.append(Selector(token, tuple(around)))
        elif token == "(":
            around.append(function)
            function = ""
        elif token == ")":
            around.pop()
        elif token == "{":
            end = _find(tokens, "}", at)
            found.selectors[-1].matchers += _matchers([each for _, each in tokens[at + 1 : end]])
            at = end
        elif token == "[":
            found.selectors[-1].is_range = True
            at = _find(tokens, "]", at)
        at += 1
    return found


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"not PromQL at {text[at:]!r}")
        if match.lastgroup != "space":
            yield str(match.lastgroup), match.group()
        at = match.end()


def _check_brackets(text: str, tokens: list[str]) -> None:
    opened: list[str] = []
    for token in tokens:
        if token in ("(", "[", "{"):
            opened.append(token)
        elif token in (")", "]", "}") and (not opened or opened.pop() + token not in ("()", "[]", "{}")):
            raise ValueError(f"a bracket closes that was not opened: {text}")
    if opened:
        raise ValueError(f"a bracket is not closed: {text}")


def _find(tokens: list[tuple[str, str]], wanted: str, start: int) -> int:
    return next(at for at in range(start, len(tokens)) if tokens[at][1] == wanted)


def _matchers(tokens: list[str]) -> Iterator[tuple[str, str, str]]:
    for at in range(0, len(tokens), 4):  # label, sign, value, comma
        label, sign, value = tokens[at : at + 3]
        yield label, sign, value.strip("\"'")
