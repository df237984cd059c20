"""Time zones by their names in the IANA database."""

from zoneinfo import ZoneInfo, available_timezones

from tenure.errors import InvalidSchedule


def find_zone(name: str) -> ZoneInfo:
    """The zone of this name; a slip is answered with the names that are like it."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, TypeError, OSError):  # a folder of the database raises OSError
        from difflib import get_close_matches  # only for those who need it

        like = get_close_matches(str(name), available_timezones(), 3)
        hint = f"did you mean {' or '.join(map(repr, like))}?" if like else 'write it as "Europe/Madrid" or "UTC"'
        raise InvalidSchedule(f"{name!r} is not a time zone; {hint}") from None
