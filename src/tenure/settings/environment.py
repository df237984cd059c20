"""Settings from the environment: TENURE_RETENTION__DONE=3 sets retention.done, TENURE_KEYS_FILE names a file.

A variable that is no setting is ignored with a warning, since other programs may have set it.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from tenure.errors import SettingsError
from tenure.settings.values import Settings
from tenure.suggestions import nearest
from tenure.trusted_files import file_fault

logger = logging.getLogger(__name__)

PREFIX = "TENURE_"
COMMAND_URL = "TENURE_COMMAND_URL"  # the command line sets it for its process and for those that it starts
REMOTE_TOKEN = "TENURE_REMOTE_TOKEN"  # noqa: S105 - the name of a variable, for `tenure --remote`
_FILE = "_FILE"
# Kubernetes sets such variables in every pod beside a service that is named tenure or tenure-…
_KUBERNETES = re.compile(
    r"TENURE(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=.*"
    r"|TENURE(_\w+)?_PORT=(tcp|udp|sctp)://.*"
)


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings among these variables, as a table that may contain tables."""
    values: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):  # a table comes before its members, so that the members win
        path = _path_of(variable)
        if path is None or type_of(path) is None:
            continue
        if variable.endswith(_FILE):
            if environment.get(plain := variable.removesuffix(_FILE)):
                raise SettingsError(f"{plain} and {variable} are both set; remove one of them")
            text = _read_file(variable, text)
        branch = values
        for name in path[:-1]:
            branch = branch.setdefault(name, {})
            if not isinstance(branch, dict):
                raise SettingsError(f"{variable} sets a member of {name!r}, which is set to a single value elsewhere")
        branch[path[-1]] = _parse(path, text, variable)
    return values


def warn_of_unknown(environment: Mapping[str, str]) -> None:
    """Log a warning for each variable with our prefix that is no setting; those of Kubernetes are left out."""
    for variable, text in sorted(environment.items()):
        path = _path_of(variable)
        if path is not None and type_of(path) is None and not _KUBERNETES.fullmatch(f"{variable}={text}"):
            guess = nearest("__".join(path), _names_like(path))
            suffix = _FILE if variable.endswith(_FILE) else ""
            advice = f"did you mean {PREFIX}{guess.upper()}{suffix}?" if guess else "see the settings reference"
            logger.warning("the environment variable %s is no setting and has no effect; %s", variable, advice)


def _path_of(variable: str) -> list[str] | None:
    """The names of the tables and of the setting; None if the variable is not ours to read."""
    if not variable.startswith(PREFIX) or variable in (COMMAND_URL, REMOTE_TOKEN, f"{REMOTE_TOKEN}{_FILE}"):
        return None
    return variable.removeprefix(PREFIX).removesuffix(_FILE).lower().split("__")


def _names_like(path: list[str]) -> Iterator[str]:
    """The names of all settings, of the members of tables, and of the members beside this path."""
    for name, declared in get_type_hints(Settings).items():
        yield name
        yield from (f"{name}__{member}" for member in members(declared))
    yield from ("__".join([*path[:-1], member]) for member in members(type_of(path[:-1])))


def members(declared: Any) -> tuple[str, ...]:
    """The names in a table of settings; none if this type is no table."""
    return declared.__struct_fields__ if isinstance(declared, type) and issubclass(declared, Struct) else ()


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
    choices = get_args(declared) if type(None) in get_args(declared) else ()
    if kind is tuple or (text and any(get_origin(each) is tuple for each in choices)):
        return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    if kind is dict or (isinstance(kind, type) and issubclass(kind, Struct)):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{variable} must be a JSON object: {error}") from error
    return None if not text and type(None) in get_args(declared) else text


def type_of(path: list[str], within: Any = Settings) -> Any:
    """The type of the setting at this path; None if there is none."""
    declared = within
    for name in path:
        if get_origin(declared) is dict:
            declared = get_args(declared)[1]
        else:
            declared = get_type_hints(declared).get(name) if isinstance(declared, type) else None
    return declared
