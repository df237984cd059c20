"""Where each setting came from: a file, an environment variable, or the arguments of the app; else it is a default."""

from collections.abc import Iterator, Mapping
from typing import Any

from tenure.settings.environment import PREFIX

ARGUMENTS = "arguments"
DEFAULT = "default"


def paths_of(layer: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The dotted paths of the values in a layer, such as `retention.done`."""
    for name, value in layer.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value:
            yield from paths_of(value, f"{path}.")
        else:
            yield path


def variable_of(path: str, environment: Mapping[str, str]) -> str:
    """The environment variable that set a path, itself or as a member of a table in JSON."""
    names = path.split(".")
    for count in range(len(names), 0, -1):
        variable = PREFIX + "__".join(names[:count]).upper()
        for found in (variable, f"{variable}_FILE"):
            if found in environment:
                return found
    return "the environment"


def origin_of(path: str, origins: Mapping[str, str]) -> str:
    """Where the value at this path came from; the spelling of a queue may differ from the one that the user wrote."""
    known = {name.lower(): origin for name, origin in origins.items()}
    names = path.lower().split(".")
    for count in range(len(names), 0, -1):
        if origin := known.get(".".join(names[:count])):
            return origin
    table = f"{names[0]}."
    is_renamed = len(names) > 1 and names[0] in ("rates", "allow", "aliases")
    return next((origin for name, origin in known.items() if is_renamed and name.startswith(table)), DEFAULT)
