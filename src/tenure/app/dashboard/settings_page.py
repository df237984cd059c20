"""The settings page: every setting, its value without secrets, and where it came from."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.backends.url import without_secrets
from tenure.redaction import MASK, Redactor
from tenure.settings import Settings, origin_of

GENERAL = "general"
_URLS = ("url", "url_override", "store", "backends", "outboxes")
_KEPT_TOGETHER = ("sensitive",)  # words, which are no secrets themselves
# Members whose values are secrets under names that do not say so.
_SECRET_MEMBERS = ("webhook", "environment", "users", "tokens")
_MAX_VALUE = 2000  # characters


class SettingRow(Struct, frozen=True, kw_only=True):
    """A setting by its dotted path; `origin` is `default`, a file, an environment variable, or `arguments`."""

    name: str
    value: str
    origin: str
    is_masked: bool = False

    @property
    def is_default(self) -> bool:
        return self.origin == "default"


class SettingGroup(Struct, frozen=True):
    """The settings of one table, such as `retention`."""

    name: str
    rows: tuple[SettingRow, ...]


class SettingsPage(Struct, frozen=True, kw_only=True):
    """`changed` is how many settings are no defaults."""

    at: datetime
    groups: tuple[SettingGroup, ...]
    total: int
    changed: int


class SettingsQuery(Struct, frozen=True, kw_only=True):
    """With `changed`, only the settings that are no defaults."""

    page: ClassVar[str] = "settings"
    changed: bool = False

    def read(self, sources: Sources, access: Access) -> SettingsPage:
        app = sources.app
        rows = list(setting_rows(app.settings, app.setting_origins, sources.redactor))
        shown = [row for row in rows if not (self.changed and row.is_default)]
        groups: dict[str, list[SettingRow]] = {GENERAL: []}
        for row in shown:
            groups.setdefault(row.name.partition(".")[0] if "." in row.name else GENERAL, []).append(row)
        return SettingsPage(
            at=sources.now,
            groups=tuple(SettingGroup(name, tuple(found)) for name, found in groups.items() if found),
            total=len(rows),
            changed=sum(not row.is_default for row in rows),
        )


def setting_rows(settings: Settings, origins: Mapping[str, str], redactor: Redactor) -> Iterator[SettingRow]:
    """Every setting; of a table its members."""
    values: dict[str, Any] = msgspec.to_builtins(settings)
    for path, value in _leaves(values):
        shown = _shown(path, value, redactor)
        yield SettingRow(name=path, value=_text(shown), origin=origin_of(path, origins), is_masked=MASK in _text(shown))


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The members of tables, two levels deep: a lane is a table of its own, its weights are one value."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value and path.count(".") < 2:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value


def _shown(path: str, value: Any, redactor: Redactor) -> Any:
    """The value without secrets."""
    names = path.split(".")
    if not value or names[0] in _KEPT_TOGETHER:
        return value
    if names[0] in _URLS:
        return without_secrets(value) if isinstance(value, str) else [without_secrets(url) for url in value]
    if names[0] == "keys":
        return [f"{key.partition(':')[0]}:{MASK}" for key in value]
    if any(name in _SECRET_MEMBERS or redactor.is_sensitive(name) for name in names[1:]) or redactor.is_sensitive(
        names[0]
    ):
        return MASK
    return redactor.mask(value)


def _text(value: Any) -> str:
    if value is None or (not value and isinstance(value, str | list | tuple | dict)):
        return "–"
    if isinstance(value, str):
        return value[:_MAX_VALUE]
    if isinstance(value, list | tuple) and all(isinstance(each, str | int) for each in value):
        return ", ".join(map(str, value))[:_MAX_VALUE]
    return msgspec.json.encode(value).decode()[:_MAX_VALUE]
