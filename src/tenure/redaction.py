"""Redaction: removes secrets and terminal control characters from text that is shown or logged.

Stored payloads are never changed. Masking finds secrets by names and known formats, so it cannot find every secret.
"""

import logging
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

MASK = "***"
SENSITIVE = (
    *("password", "passwd", "passphrase", "secret", "token", "authorization", "credential", "cookie"),
    *("api_key", "access_key", "private_key", "signing_key"),
)
_MAX_LEVELS = 64

# Every expression takes time in proportion to the text, which may come from anyone: what one attempt reads, no other
# attempt reads again, because attempts begin at different words, are bounded, or do not give back what they took (`+`).
_VALUE = r"""(?:(?:Bearer|Basic|Token)\s{1,3})?(?:"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|[^\s,;&"'<>(){}\[\]]+)"""
_SHAPES = (
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,40}-----|\Z)"
    r"|\b(?:Bearer|Basic)\s{1,3}[\w.~+/=-]{8,}"
    r"|(?<![\w-])eyJ[\w-]{5,}+\.[\w-]{5,}+\.?[\w-]*+"  # a JSON web token
    r"|\b(?:[spr]k_(?:live|test)|gh[pousr]|github_pat|glpat|xox[abeoprs]|sk)[_-][\w-]{10,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{12,}|\bAIza[\w-]{30,}"
)
_USER = re.compile(r"(://)[^/\s'\"]+@")  # up to the last @, as a password may contain one
_LONG = re.compile(r"(?<![\w+=-])[\w+=-]{40,}")
_HINTS = (
    *("-----begin", "bearer", "basic", "eyj", "akia", "asia", "aiza", "github_pat", "glpat", "xox"),
    *("sk_", "sk-", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
)
_ID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-")


class Redactor:
    """Masks the values of members whose names contain one of these words, and text that looks like a secret."""

    def __init__(self, names: Iterable[str] = SENSITIVE) -> None:
        words = [re.split(r"[\W_]+", name.lower()) for name in names if name.strip("_- ")]
        self._hints = (*{max(parts, key=len) for parts in words}, *_HINTS)
        self._name = re.compile("|".join("[_-]?".join(map(re.escape, parts)) for parts in words) or r"(?!)", re.I)
        pair = rf"""((?:{self._name.pattern})[\w-]{{0,40}}\\?["']?\s{{0,3}}[=:]\s{{0,3}}\\?)({_VALUE})"""
        self._secret = re.compile(f"{pair}|(?:{_SHAPES})", re.I)

    def mask(self, value: Any, levels: int = _MAX_LEVELS) -> Any:
        """The value with its secrets masked, also inside mappings, lists and texts."""
        if isinstance(value, str):
            return self.text(value)
        if not levels:
            return MASK
        if isinstance(value, dict):
            return {
                name: MASK if item and self.is_sensitive(name) else self.mask(item, levels - 1)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.mask(item, levels - 1) for item in value]
        return value

    def is_sensitive(self, name: Any) -> bool:
        return isinstance(name, str) and self._name.search(name) is not None

    def text(self, text: str) -> str:
        """The text with values after sensitive names, and text that looks like a secret, masked."""
        if "://" in text:
            text = _USER.sub(rf"\1{MASK}@", text)
        lowered = text.lower()
        if any(hint in lowered for hint in self._hints):  # the expression costs 1.5 µs per character
            text = self._secret.sub(lambda found: f"{found[1] or ''}{MASK}", text)
        return _LONG.sub(_mask_long_word, text)


def _mask_long_word(found: re.Match[str]) -> str:
    """Mask a long word, unless it has no digits, and so is a name, or contains one of our ids."""
    word = found[0]
    digits = sum(map(str.isdigit, word))
    is_mixed = digits > 2 or (digits > 0 and word.lower() != word != word.upper())
    return MASK if is_mixed and digits < len(word) and not _ID.search(word) else word


@cache
def default_redactor() -> Redactor:
    """The redactor for code that has no settings."""
    return Redactor()


def printable(text: str) -> str:
    """The text with control characters escaped, because messages and errors may come from untrusted sources."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def one_line(text: str) -> str:
    """The text on one line, so that it cannot forge further lines of a log."""
    return " ".join(printable(text).split())


def escape_controls(json: str) -> str:
    """Escape characters that could control a terminal; in JSON they occur only inside strings."""
    if json.isascii():
        return json.replace("\x7f", "\\u007f")
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in json)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class LogGuard(logging.Filter):
    """A filter for log handlers: masks secrets in messages and tracebacks, and keeps each message on one line."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or default_redactor()

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = one_line(self._redactor.text(record.getMessage())), None
        if record.exc_info:
            trace = record.exc_text or logging.Formatter().formatException(record.exc_info)
            record.exc_text = printable(self._redactor.text(trace))
        return True
