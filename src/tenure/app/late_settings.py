"""`app.configure`: settings that an app gets after it was made, such as those of a web application's configuration.

They take the place of arguments to `Tenure(...)`. Only settings that are read when a backend is opened can come so
late: the others have shaped handlers, queues and guards already.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tenure import settings as setting
from tenure.app.open_backends import OpenBackends, Place
from tenure.errors import SettingsError
from tenure.settings import Settings
from tenure.suggestions import nearest

if TYPE_CHECKING:
    from tenure.app.tenure import Tenure

LATE = ("url", "backends", "store", "keys", "outboxes", "environment")


def configure(app: "Tenure", backends: OpenBackends, values: Mapping[str, Any]) -> None:
    """Close what is open in the former place; inside `app.override` the override goes before these settings."""
    _check_names(values)
    if not values or backends.place.is_override:
        return
    loaded = setting.load_with_origins(values, os.environ)
    settings = structs.replace(app.settings, **{name: getattr(loaded.settings, name) for name in values})
    if settings == app.settings:
        return
    if any(worker.is_running for worker in backends.place.workers):
        raise SettingsError("a worker of this app is running, and would go on with the settings from before; stop it")
    app.close()
    backends.place, app.settings = Place(settings, backends.place.clock), settings
    app.setting_origins |= {path: origin for path, origin in loaded.origins.items() if path.partition(".")[0] in values}


def _check_names(values: Mapping[str, Any]) -> None:
    for name in values:
        if name in LATE:
            continue
        if name not in Settings.__struct_fields__:
            guess = nearest(name, LATE)
            hint = f"did you mean {guess!r}?" if guess else f"settings that may come late are {', '.join(LATE)}"
            raise SettingsError(f"there is no setting {name!r}; {hint}")
        raise SettingsError(
            f"the setting {name!r} is read when the app is made, so it cannot come later: give it to Tenure(...), or "
            f"set it in tenure.toml or as TENURE_{name.upper()}; settings that may come later are {', '.join(LATE)}"
        )
