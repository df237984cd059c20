"""What one tick of a schedule is called: the same in every process, so that it is stored once."""

import hashlib

from tenure.clock import to_datetime

_SHARES = 1 << 64
_NOISE = (1 << 62) - 1
_MARK = "7c40"  # where other ids have the fractions of their millisecond: one in 4096 has these
_PLACE = slice(14, 18)


def tick_key(name: str, tick: int) -> str:
    """The name of a tick for people and ledgers: `report@2026-11-15T02:00Z`."""
    return f"{name}@{to_datetime(tick):%Y-%m-%dT%H:%MZ}"


def job_id(name: str, tick: int) -> str:
    """A UUIDv7 of the tick's own time, whose random part is drawn from its name, and that `is_tick` knows again."""
    milliseconds, noise = tick // 1000, int.from_bytes(_digest("id", name, tick)[:8]) & _NOISE
    return (
        f"{milliseconds >> 16 & 0xFFFFFFFF:08x}-{milliseconds & 0xFFFF:04x}-{_MARK}-"
        f"{0x8000 | noise >> 48:04x}-{noise & 0xFFFFFFFFFFFF:012x}"
    )


def is_tick(id: str) -> bool:
    """Whether this may be the id of a tick's job: so cheap that every job that ends can be asked."""
    return id[_PLACE] == _MARK


def jitter_share(name: str, tick: int) -> float:
    """From 0 up to 1, evenly spread over ticks and schedules, and always the same for this one."""
    return int.from_bytes(_digest("jitter", name, tick)[:8]) / _SHARES


def _digest(use: str, name: str, tick: int) -> bytes:
    return hashlib.sha256(f"{use}\0{name}\0{tick}".encode()).digest()
