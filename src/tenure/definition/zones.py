"""Time zones by their names in the IANA database."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from tenure.errors import InvalidSchedule


def find_zone(name: str) -> tzinfo:
    """The zone of this name; a slip is answered with the names that are like it."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, TypeError, OSError):  # a folder of the database raises OSError
        if name == "UTC":  # known also where there is no database
            return UTC
        raise InvalidSchedule(f"{name!r} is not a time zone; {_hint(str(name))}") from None


def _hint(name: str) -> str:
    from difflib import get_close_matches  # only for those who need it

    known = available_timezones()
    if not known:
        return "there is no time zone database here: install tzdata, from the system or from PyPI"
    like = get_close_matches(name, known, 3)
    return f"did you mean {' or '.join(map(repr, like))}?" if like else 'write it as "Europe/Madrid" or "UTC"'
