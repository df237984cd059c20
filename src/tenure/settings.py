"""Settings: defaults < pyproject.toml or tenure.toml < TENURE_* environment < arguments; unknown keys are refused."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from tenure.errors import SettingsError
from tenure.permissions import Command, Event, Http, Scope, Shell
from tenure.redaction import SENSITIVE

PREFIX = "TENURE_"
_SECRET = frozenset({"keys", "url", "store", "backends"})


class Retention(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Days that ended jobs are kept, per state, and what workers counted; 0 keeps for ever."""

    done: float = 7.0
    cancelled: float = 7.0
    expired: float = 7.0
    dead: float = 30.0
    statistics: float = 30.0

    def __post_init__(self) -> None:
        for state in self.__struct_fields__:
            if not getattr(self, state) >= 0:
                raise ValueError(f"retention.{state} must be at least 0 days (0 keeps for ever)")


class LaneSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A lane of `tenure work`: queues, and how their jobs run; a concurrency of 0 is what suits the runner."""

    queues: tuple[str, ...] = ()
    weights: dict[str, float] = {}
    runner: str = "process"
    concurrency: int = 0


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every setting and its default; the reference page of the docs is made from these fields."""

    url: str = "sqlite:///tenure.db"
    backends: dict[str, str] = {}
    store: str | None = None
    app: str | None = None
    modules: tuple[str, ...] = ()
    environment: str = "production"
    timezone: str = "UTC"
    schedules: str | None = None
    queues: tuple[str, ...] = ("default",)
    lanes: dict[str, LaneSettings] = {}
    aliases: dict[str, str] = {}
    allow: dict[str, tuple[str, ...]] = {}
    keys: tuple[str, ...] = ()
    scopes: dict[str, Scope] = {}
    audience: str | None = None
    verify: bool = True
    max_bytes: int = 262_144
    max_retries: int = 0
    backoff: dict[str, Any] = {}
    rates: dict[str, str | int] = {}
    breaker_threshold: int = 5
    breaker_cooldown: float = 60.0
    default_timeout: float | None = None
    unknown_patience: float = 3600.0
    on_dead: str | None = None
    lease: float = 15.0
    stop_grace: float = 30.0
    recycle_after: int | None = None
    max_memory: float | None = None
    refresh_interval: float = 300.0
    hook_timeout: float = 60.0
    retention: Retention = Retention()
    sensitive: tuple[str, ...] = SENSITIVE
    command: dict[str, Command] = {}
    shell: Shell = Shell()
    event: Event = Event()
    http: Http = Http()

    def __post_init__(self) -> None:
        if not self.queues:
            raise ValueError("queues must name at least one queue")
        if self.timezone != "UTC":
            _check_zone(self.timezone)
        if not self.lease >= 1:
            raise ValueError("lease must be at least 1 second")
        if not self.stop_grace >= 0:
            raise ValueError("stop_grace must be at least 0 seconds")
        for name in ("refresh_interval", "hook_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0 seconds")
        if self.max_bytes < 1024:
            raise ValueError("max_bytes must be at least 1024")
        self._check_limits()

    def _check_limits(self) -> None:
        if self.recycle_after is not None and self.recycle_after < 1:
            raise ValueError("recycle_after must be at least 1 job; leave it out for no limit")
        if self.max_memory is not None and not self.max_memory > 0:
            raise ValueError("max_memory must be more than 0 MB; leave it out for no limit")
        if self.breaker_threshold < 1 or not self.breaker_cooldown > 0:
            raise ValueError("breaker_threshold must be at least 1, and breaker_cooldown more than 0 seconds")
        if self.default_timeout is not None and not self.default_timeout > 0:
            raise ValueError("default_timeout must be more than 0 seconds; leave it out for no limit")

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Without the secrets: settings end up in logs and on screens."""
        return [(name, "…" if name in _SECRET else getattr(self, name)) for name in self.__struct_fields__]


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo  # only for those who name one

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError(f"timezone must be a name such as 'Europe/Madrid' or 'UTC', not {name!r}") from None


def load(
    arguments: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings of this process; `folder` is where the files are looked for."""
    values: dict[str, Any] = {}
    for source, layer in (
        _from_files(folder or Path()),
        ("the environment", _from_environment(environment or {})),
        ("the arguments", dict(arguments or {})),
    ):
        _checked({**layer}, source)
        values = _merged(values, layer)
    return _checked(values, "the settings")


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
    """TENURE_RETENTION__DONE=3 sets retention.done; TENURE_KEYS_FILE names a file that holds the value."""
    values: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):  # a table comes before its members, which then win
        if not variable.startswith(PREFIX):
            continue
        path = variable.removeprefix(PREFIX).lower().split("__")
        if path[-1].endswith("_file"):
            path[-1] = path[-1].removesuffix("_file")
            text = _secret(variable, text)
        branch = values
        for name in path[:-1]:
            branch = branch.setdefault(name, {})
            if not isinstance(branch, dict):
                raise SettingsError(f"{variable} sets a member of {name!r}, which is set to a single value elsewhere")
        branch[path[-1]] = _parse(path, text, variable)
    return values


def _secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{variable} names a file that cannot be read: {error}") from error


def _parse(path: list[str], text: str, variable: str) -> Any:
    """Text as the type of the setting: lists are split at commas and line ends, tables are JSON."""
    declared = _declared(path)
    kind = get_origin(declared) or declared
    if kind is tuple:
        return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    if kind is dict or (isinstance(kind, type) and issubclass(kind, Struct)):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{variable} must be a JSON object: {error}") from error
    return None if not text and type(None) in get_args(declared) else text


def _declared(path: list[str]) -> Any:
    """The type of the setting at this path, None where there is none."""
    declared: Any = Settings
    for name in path:
        if get_origin(declared) is dict:
            declared = get_args(declared)[1]
        else:
            declared = get_type_hints(declared).get(name) if isinstance(declared, type) else None
    return declared


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Tables merge key by key; everything else is replaced."""
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _checked(values: dict[str, Any], source: str) -> Settings:
    place = ""
    try:
        lanes = values.get("lanes")
        for name, lane in lanes.items() if isinstance(lanes, dict) else ():
            place = f"lane {name!r}: "  # else the error could not say which
            msgspec.convert(lane, LaneSettings, strict=False)
        place = ""
        return msgspec.convert(values, Settings, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        text = str(error).replace("Object contains unknown field", "unknown setting").replace("`$.", "`")
        raise SettingsError(f"{source}: {place}{text}; see the settings reference for what exists") from error
