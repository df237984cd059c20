"""The settings of a Tenure app in the configuration of a Flask or Quart application."""

from collections.abc import Mapping
from typing import Any

from tenure.app.tenure import Tenure
from tenure.errors import SettingsError


def settings_in(config: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The members of the table `TENURE`, and the keys `TENURE_URL` and so on, for an app with the key `tenure`."""
    name = key.upper()
    table = config.get(name, {})
    if not isinstance(table, Mapping):
        raise SettingsError(f"{name} in the configuration must be a dict of settings, got {table!r:.80}")
    prefix = f"{name}_"
    single = {entry.removeprefix(prefix).lower(): config[entry] for entry in config if entry.startswith(prefix)}
    return {**table, **single}


def configure_and_claim(web: Any, app: Tenure, key: str) -> None:
    """Put the app into the extensions of a Flask or Quart application, and give it the settings from there."""
    if not key.isidentifier():
        raise SettingsError(f"key must be a name such as 'reports', got {key!r}")
    present = web.extensions.get(key, app)
    if present is not app:
        raise SettingsError(
            f"this web application already has another extension {key!r}: give each Tenure app a key of its own, for "
            'example key="reports", which also names its settings (REPORTS_URL) and its commands'
        )
    app.configure(**settings_in(web.config, key))
    web.extensions[key] = app
