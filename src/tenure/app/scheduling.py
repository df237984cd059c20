"""The function that the settings name to register schedules, found and called with the app."""

import pkgutil
from typing import TYPE_CHECKING

from tenure.errors import SettingsError

if TYPE_CHECKING:
    from tenure.app.tenure import Tenure


def register_schedules(app: "Tenure", place: str | None) -> None:
    """Call the function at `module:function`, if there is one."""
    if place is None:
        return
    try:
        register = pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"the setting schedules names {place!r}, which cannot be found: {error}; write it as module:function"
        ) from error
    register(app)
