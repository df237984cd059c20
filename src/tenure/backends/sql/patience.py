"""The option `patience` of a server's URL: how many seconds it may be silent."""

from tenure.errors import UnknownBackend


def seconds(text: str) -> float:
    """The seconds that this text says."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 3600:
        raise UnknownBackend(f"option patience={text!r} must be a number of seconds from 1 to 3600")
    return value
