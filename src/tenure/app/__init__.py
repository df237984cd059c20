"""The composition root: settings in, wired objects out; nothing else knows every layer."""

from tenure.app.tenure import Tenure

__all__ = ["Tenure"]
