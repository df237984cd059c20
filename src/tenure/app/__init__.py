"""The composition root: settings in, wired objects out; nothing else knows every layer."""

from tenure.app.tenure import Tenure
from tenure.app.workshop import RunnerKind

__all__ = ["RunnerKind", "Tenure"]
