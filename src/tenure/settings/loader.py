"""Loads settings: defaults < pyproject.toml or tenure.toml < TENURE_* environment < arguments.

For the URL, TENURE_URL_OVERRIDE goes before the arguments, and the option `--url` of a command before all.
Unknown keys are refused, except in the environment.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from tenure.errors import SettingsError
from tenure.recipients import Notification
from tenure.redaction import default_redactor
from tenure.settings.environment import COMMAND_URL, from_environment, members, type_of, warn_of_unknown
from tenure.settings.origins import paths_of, variable_of
from tenure.settings.queue_names import with_one_spelling
from tenure.settings.values import LaneSettings, Settings
from tenure.suggestions import nearest

logger = logging.getLogger(__name__)

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
    return load_with_origins(arguments, environment, folder).settings


class Loaded(NamedTuple):
    """The settings, and where each that is no default came from, by its dotted path."""

    settings: Settings
    origins: dict[str, str]


def load_with_origins(
    arguments: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Loaded:
    """As `load`, with the origin of each setting."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    file, from_file = _from_files(folder or Path())
    for source, layer in (
        (file, from_file),
        ("the environment", from_environment(environment or {})),
        ("the arguments", dict(arguments or {})),
    ):
        _check({**layer}, source)
        values = _merge(values, layer)
        for path in paths_of(layer):
            is_variable = source == "the environment"
            origins[path] = variable_of(path, environment or {}) if is_variable else source.removeprefix("the ")
    command_url = (environment or {}).get(COMMAND_URL)
    if url := command_url or values.get("url_override"):
        values["url"] = values.get("backends", {}).get(url, url)
        origins["url"] = "--url" if command_url else f"url_override, {origins['url_override']}"
    if "queues" not in values and values.get("url", "").startswith("servicebus:"):
        values["queues"] = ("default",)  # each queue must be created there, and an empty one delays a lease by 0.2 s
    try:
        return Loaded(with_one_spelling(_check(values, "the settings")), origins)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def log_environment(settings: Settings, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Log which variables are no settings, and which URL the setting `url_override` has replaced."""
    warn_of_unknown(environment)
    if settings.is_overridden:
        replaced = load({**arguments, "url_override": None}, environment).url
        shown = default_redactor().text
        logger.info("url_override replaces the URL %s by %s", shown(replaced), shown(settings.url))


def _from_files(folder: Path) -> tuple[str, dict[str, Any]]:
    own, project = folder / "tenure.toml", folder / "pyproject.toml"
    if own.is_file():
        return str(own), _toml(own)
    table = _toml(project).get("tool", {}).get("tenure", {}) if project.is_file() else {}
    return f"[tool.tenure] in {project}", table


def _toml(path: Path) -> dict[str, Any]:
    import tomllib  # as the other imports inside functions: a process without such a file starts sooner

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
    place, within = "", cast("type[Struct]", Settings)
    try:
        for table, (word, kind) in _TABLES.items():
            found = values.get(table)
            for name, entry in found.items() if isinstance(found, dict) else ():
                place, within = f"{word} {name!r}: ", kind  # so that the error names it
                msgspec.convert(entry, kind, strict=False)
        place, within = "", Settings
        return msgspec.convert(values, Settings, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        text = str(error).replace("Object contains unknown field", "unknown setting").replace("`$.", "`")
        raise SettingsError(f"{source}: {place}{text}; {_advice(text, within)}") from error


def _advice(text: str, within: type[Struct]) -> str:
    """The setting that the user probably meant, if the text is about an unknown one."""
    if found := re.match(r"unknown setting `([^`]*)`(?: - at `([^`]*)`)?", text):
        table = type_of(re.findall(r"\w+|\[\.\.\.\]", found[2] or ""), within)
        if guess := nearest(found[1], members(table)):
            return f"did you mean `{guess}`?"
    return "see the settings reference for what exists"
