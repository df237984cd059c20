"""Loads settings: defaults < pyproject.toml or tenure.toml < TENURE_* environment < arguments < `tenure --url`.

Unknown keys are refused.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tenure.errors import SettingsError
from tenure.recipients import Notification
from tenure.settings.environment import COMMAND_URL, from_environment
from tenure.settings.values import LaneSettings, Settings

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
        ("the environment", from_environment(environment or {})),
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
