"""Targets: each takes any bytes, and raises only when a parser did what it must not."""

import tomllib
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from tenure.builtin.url_destination import parse_url
from tenure.definition import cron_expression
from tenure.definition.payload import Shape
from tenure.errors import InvalidJob, MessageRejected, Refused, SettingsError
from tenure.redaction import default_redactor, printable
from tenure.settings import load
from tenure.wire.envelope import Wire
from tenure.wire.signing import Key, Ring

_ring = Ring([Key("k1", bytes(range(32)))])
_wire = Wire(_ring)
_payload = Shape()


def envelope(data: bytes) -> None:
    """A message is refused with a reason, or opens; so does one that a key holder sealed."""
    for sealed in (data, _ring.seal(data), _ring.seal(b'{"v":1,"kid":"k1",' + data + b"}")):
        with suppress(MessageRejected):
            opened = _wire.open(sealed, "mail")
            assert sealed is not data, "a message without a seal was opened"
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                _payload.unpack(opened.payload)


def settings(data: bytes) -> None:
    """Settings are read, or refused by name."""
    text = data.decode("utf-8", "replace")
    with suppress(tomllib.TOMLDecodeError, RecursionError), suppress(SettingsError):
        repr(load(tomllib.loads(text)))
    name, _, value = text.partition("=")
    with suppress(SettingsError):
        repr(load(environment={f"TENURE_{name.upper()}": value}))


def url(data: bytes) -> None:
    """A URL is refused, or every reader sees the same host, port and path in it."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(Refused):
        target = parse_url(text)
        seen = urlsplit(text)
        assert (seen.hostname or "").removesuffix(".") in (target.host, *_written(text, target.literal)), text
        assert (seen.port or {"http": 80, "https": 443}[target.scheme]) == target.port, text
        assert not seen.username, text
        assert not seen.fragment, text
        assert target.path.isascii(), text
        assert target.path.isprintable(), text
        assert parse_url(f"{target.scheme}://{target.authority}{target.path}") == target, text


def _written(text: str, literal: object) -> list[str]:
    """How the URL itself spells an address, which we write in its shortest form."""
    return [text.partition("[")[2].partition("]")[0].lower()] if literal else []


def cron(data: bytes) -> None:
    """An expression or a time of day is read, or refused."""
    text = data.decode("utf-8", "replace")
    for read in (cron_expression.parse_frequency, cron_expression.parse_time):
        with suppress(InvalidJob):
            read(text)


def redaction(data: bytes) -> None:
    """Any text can be masked, and what is left cannot steer a terminal."""
    shown = printable(default_redactor().text(data.decode("utf-8", "replace")))
    assert shown.replace("\n", "").replace("\t", "").isprintable()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "envelope": envelope,
    "settings": settings,
    "url": url,
    "cron": cron,
    "redaction": redaction,
}
SEEDS: dict[str, list[bytes]] = {
    "envelope": [
        b'"job":"a","payload":{"x":[1,"\\u0000"]},"queue":"mail","priority":5,"maxRetries":0,"attempts":0,"name":null,'
        b'"identifier":"i","idempotencyKey":null,"schedule":null,"backoff":{"strategy":"fixed"},"timeout":1.5'
    ],
    "settings": [b'lease = 20\n[retention]\ndone = 1\n[shell]\nallow = ["/bin/ls"]', b"http__allow=a,b", b"keys=k:AAA"],
    "url": [b"https://user@host:80/a?b#c", b"http://[::1]:443/", b"http://0x7f.1/", b"https://a.example./%2e?q"],
    "cron": [b"*/5 0-7 1,15 * mon-fri", b"@daily", b"4:08 pm", b"0 0 L * 5#2"],
    "redaction": [b'password="x" token: y Bearer abcdefghij https://u:p@h eyJabcdef.ghijkl.mno'],
}
