"""The backoff that the settings describe."""

from typing import Any

import msgspec

from tenure.definition.retry import Backoff
from tenure.errors import SettingsError, TenureError


def find_backoff(values: dict[str, Any]) -> Backoff:
    """The value of the setting `backoff`."""
    unknown = values.keys() - set(Backoff.__struct_fields__)
    if unknown:
        known = ", ".join(Backoff.__struct_fields__)
        raise SettingsError(f"unknown setting backoff.{min(unknown)}; known ones: {known}")
    try:
        return msgspec.convert(values, Backoff, strict=False)
    except (msgspec.ValidationError, TenureError) as error:
        raise SettingsError(f"the setting backoff is wrong: {error}") from error
