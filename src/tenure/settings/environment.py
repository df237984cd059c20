"""Settings from the environment: TENURE_RETENTION__DONE=3 sets retention.done, TENURE_KEYS_FILE names a file."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from tenure.errors import SettingsError
from tenure.settings.values import Settings
from tenure.trusted_files import file_fault

PREFIX = "TENURE_"
COMMAND_URL = "TENURE_COMMAND_URL"  # the command line sets it for its process and for those that it starts


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """TENURE_RETENTION__DONE=3 sets retention.done; TENURE_KEYS_FILE is the path of a file with the value."""
    values: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):  # a table comes before its members, so that the members win
        if not variable.startswith(PREFIX) or variable == COMMAND_URL:
            continue
        path = variable.removeprefix(PREFIX).lower().split("__")
        if path[-1].endswith("_file"):
            path[-1] = path[-1].removesuffix("_file")
            if environment.get(plain := variable[: -len("_FILE")]):
                raise SettingsError(f"{plain} and {variable} are both set; remove one of them")
            text = _read_file(variable, text)
        branch = values
        for name in path[:-1]:
            branch = branch.setdefault(name, {})
            if not isinstance(branch, dict):
                raise SettingsError(f"{variable} sets a member of {name!r}, which is set to a single value elsewhere")
        branch[path[-1]] = _parse(path, text, variable)
    return values


def _read_file(variable: str, path: str) -> str:
    """The text of a file that only trusted users can change; a secret of a container is often readable by all."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            fault = file_fault(Path(path), os.fstat(file.fileno()))
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{variable} names a file that cannot be read: {error}") from error
    if fault:
        raise SettingsError(f"{variable} names a file that other users can change: {fault}")
    return text.strip()


def _parse(path: list[str], text: str, variable: str) -> Any:
    """Text converted to the type of the setting: lists are split at commas and line ends, tables are JSON."""
    declared = type_of(path)
    kind = get_origin(declared) or declared
    if kind is tuple:
        return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    if kind is dict or (isinstance(kind, type) and issubclass(kind, Struct)):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{variable} must be a JSON object: {error}") from error
    return None if not text and type(None) in get_args(declared) else text


def type_of(path: list[str]) -> Any:
    """The type of the setting at this path; None if there is none."""
    declared: Any = Settings
    for name in path:
        if get_origin(declared) is dict:
            declared = get_args(declared)[1]
        else:
            declared = get_type_hints(declared).get(name) if isinstance(declared, type) else None
    return declared
