"""Loads settings: defaults < pyproject.toml or tenure.toml < TENURE_* environment < arguments < `tenure --url`.

Unknown keys are refused.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from tenure.errors import SettingsError
from tenure.recipients import Notification
from tenure.settings.values import LaneSettings, Settings
from tenure.trusted_files import file_fault

PREFIX = "TENURE_"
COMMAND_URL = "TENURE_COMMAND_URL"  # the command line sets it for its process and for those that it starts
_TABLES: dict[str, tuple[str, type[Struct]]] = {
    "lanes": ("lane", LaneSettings),
    "notifications": ("notification", Notification),
}


def load(
    arguments: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings of this process; the files are searched in `folder`."""
    values: dict[str, Any] = {}
    for source, layer in (
        _from_files(folder or Path()),
        ("the environment", _from_environment(environment or {})),
        ("the arguments", dict(arguments or {})),
    ):
        _check({**layer}, source)
        values = _merge(values, layer)
    if url := (environment or {}).get(COMMAND_URL):
        values["url"] = values.get("backends", {}).get(url, url)
    return _check(values, "the settings")


def _from_files(folder: Path) -> tuple[str, dict[str, Any]]:
    own, project = folder / "tenure.toml", folder / "pyproject.toml"
    if own.is_file():
        return str(own), _toml(own)
    table = _toml(project).get("tool", {}).get("tenure", {}) if project.is_file() else {}
    return f"[tool.tenure] in {project}", table


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
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
    declared = _type_of(path)
    kind = get_origin(declared) or declared
    if kind is tuple:
        return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    if kind is dict or (isinstance(kind, type) and issubclass(kind, Struct)):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{variable} must be a JSON object: {error}") from error
    return None if not text and type(None) in get_args(declared) else text


def _type_of(path: list[str]) -> Any:
    """The type of the setting at this path; None if there is none."""
    declared: Any = Settings
    for name in path:
        if get_origin(declared) is dict:
            declared = get_args(declared)[1]
        else:
            declared = get_type_hints(declared).get(name) if isinstance(declared, type) else None
    return declared


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Tables merge key by key; everything else is replaced."""
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if both else value
    return merged


def _check(values: dict[str, Any], source: str) -> Settings:
    place = ""
    try:
        for table, (word, kind) in _TABLES.items():
            found = values.get(table)
            for name, entry in found.items() if isinstance(found, dict) else ():
                place = f"{word} {name!r}: "  # so that the error names it
                msgspec.convert(entry, kind, strict=False)
        place = ""
        return msgspec.convert(values, Settings, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        text = str(error).replace("Object contains unknown field", "unknown setting").replace("`$.", "`")
        raise SettingsError(f"{source}: {place}{text}; see the settings reference for what exists") from error
