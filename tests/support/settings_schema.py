"""The JSON schema of tenure.toml, made from the code: `make reference` writes it into the package.

It is of draft 7, which editors know best. It is stricter than the loader, which also takes texts for numbers because
environment variables are texts; what the schema accepts the loader accepts, as far as a schema can say it.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from tenure import permissions, settings
from tenure.definition.retry import Backoff
from tests.support.settings_page import TABLES, meanings_of

ROOT = Path(__file__).parents[2]
FILE = Path(settings.__file__).parent / "tenure.schema.json"
DOCS = "docs/reference/settings.md"

_SECONDS = {"exclusiveMinimum": 0}
_NOT_NEGATIVE = {"minimum": 0}
_COUNT, _PERIOD = "[1-9][0-9]{0,8}", "(s|sec|second|m|min|minute|h|hour|d|day)"
_RATE = {"pattern": rf"^\s*{_COUNT}\s*/\s*{_PERIOD}\s*(burst\s+{_COUNT}\s*)?$"}
_RATE_NUMBER = {"minimum": 1, "maximum": 999_999_999}
_LOCAL = r"[^\s\x00-\x1f\x7f@<>,;:\"()\[\]\\]+"
_ADDRESS = {"pattern": f"^{_LOCAL}@{_LOCAL}$"}
_PROGRAM = {"pattern": "^/"}
_NAME = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_CALLABLE = {"pattern": rf"^{_NAME}:{_NAME}$"}

# What `__post_init__` of the struct and the app check, by the path in the schema of the struct.
RULES: dict[str, dict[str, dict[str, Any]]] = {
    "Settings": {
        "queues": {"minItems": 1},
        "lease": {"minimum": 1},
        "suspect_after": {"minimum": 1},
        "stop_grace": _NOT_NEGATIVE,
        "refresh_interval": _SECONDS,
        "hook_timeout": _SECONDS,
        "max_bytes": {"minimum": 1024},
        "recycle_after": {"minimum": 1},
        "max_memory": _SECONDS,
        "breaker_threshold": {"minimum": 1},
        "breaker_cooldown": _SECONDS,
        "log_format": {"enum": ["pretty", "json"]},
        "log_keep": _NOT_NEGATIVE,
        "max_output": {"minimum": 0, "maximum": 65_536},
        "default_timeout": _SECONDS,
        "backoff": {"$ref": "#/definitions/Backoff"},
        "app": {"pattern": r"^[^:]+:[^:]+$"},
    },
    "Retention": dict.fromkeys(settings.Retention.__struct_fields__, _NOT_NEGATIVE),
    "LaneSettings": {
        "queues": {"minItems": 1},
        "runner": {"enum": ["process", "threads", "event_loop", "inline"]},
        "concurrency": _NOT_NEGATIVE,
    },
    "DashboardUser": {"password": {"pattern": r"^scrypt\$"}},
    "DashboardToken": {"sha256": {"pattern": "^[0-9a-f]{64}$"}},
    "DashboardSettings": {"session": {"exclusiveMinimum": 0, "maximum": 8760}},
    "Mail": {"timeout": _SECONDS, "sender": _ADDRESS},
    "Notification": {"on": {"minItems": 1}},
    "Backoff": {
        "base": _NOT_NEGATIVE,
        "cap": _NOT_NEGATIVE,
        "multiplier": {"minimum": 1},
        "jitter": {"minimum": 0, "maximum": 1},
    },
}
_ITEM_RULES = {
    ("Notification", "mail"): _ADDRESS,
    ("Shell", "allow"): _PROGRAM,
    ("Http", "schemes"): {"enum": ["http", "https"]},
    ("Http", "allow"): {"pattern": r"^(\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])$"},
}
# Rules about several members of a table.
_TABLE_RULES: dict[str, dict[str, Any]] = {
    "DashboardUser": {"required": ["password"]},
    "DashboardToken": {"required": ["sha256"]},
    "LaneSettings": {"required": ["queues"]},
    "Notification": {"anyOf": [{"required": [name]} for name in ("job", "webhook", "mail")]},
    "Argument": {"oneOf": [{"required": [name]} for name in ("fixed", "one_of", "pattern", "integer")]},
}
_STRUCTS = (*TABLES.values(), permissions.Scope, permissions.Command, permissions.Argument, Backoff)


def schema() -> dict[str, Any]:
    """The schema of the file, with the texts of the settings reference."""
    _, found = msgspec.json.schema_components([settings.Settings, Backoff], ref_template="#/definitions/{name}")
    for struct in _STRUCTS:
        _refine(found[struct.__name__], struct)
    _rates(found["Settings"]["properties"]["rates"]["additionalProperties"])
    _rates(found["Notification"]["properties"]["rate"])
    found["Command"]["properties"]["run"]["anyOf"][0].update(_CALLABLE)
    found["Argument"]["properties"]["integer"].update(items={"type": "integer"})
    found["Argument"]["properties"]["integer"].pop("prefixItems", None)  # of a later draft
    found["Argument"]["properties"]["one_of"]["minItems"] = 1
    found["Backoff"]["additionalProperties"] = False
    top = found.pop("Settings")
    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"{source}/raw/main/{FILE.relative_to(ROOT)}",
        **top,
        "title": "Settings of Tenure",
        "description": f"tenure.toml, or [tool.tenure] in pyproject.toml; see {source}/blob/main/{DOCS}",
        "definitions": dict(sorted(found.items())),
    }


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _refine(table: dict[str, Any], struct: type) -> None:
    """Add descriptions and rules, and leave out what means nothing in a file: null, and defaults that are tables."""
    has_texts = struct in TABLES.values()
    meanings = meanings_of(struct) if has_texts else {}
    table["description"] = " ".join(table.get("description", "").split())
    if not table["required"]:
        del table["required"]
    table.update(_TABLE_RULES.get(struct.__name__, {}))
    for name, value in table["properties"].items():
        without_null = _without_null(value)
        if isinstance(without_null.get("default"), dict) or without_null.get("default", 0) is None:
            del without_null["default"]
        rules = RULES.get(struct.__name__, {}).get(name, {})
        changed = {**({"description": _plain(meanings[name])} if has_texts else {}), **without_null, **rules}
        if "$ref" in rules:  # draft 7 ignores what stands beside a reference
            changed = {"description": changed["description"], "allOf": [rules]}
        elif "$ref" in changed:
            changed = {"description": changed.get("description", ""), "allOf": [{"$ref": changed["$ref"]}]}
        table["properties"][name] = changed
        if (struct.__name__, name) in _ITEM_RULES:
            changed["items"] = {**changed["items"], **_ITEM_RULES[struct.__name__, name]}


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null: a setting without a value is left out."""
    others = [each for each in value.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) == len(value.get("anyOf", ())):
        return dict(value)
    rest = {key: each for key, each in value.items() if key != "anyOf"}
    return {**(others[0] if len(others) == 1 else {"anyOf": others}), **rest}


def _rates(value: dict[str, Any]) -> None:
    for each in value["anyOf"]:
        each.update(_RATE if each["type"] == "string" else _RATE_NUMBER)


def _plain(markdown: str) -> str:
    """The text without the targets of its links, which are relative to the page."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", markdown)


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
