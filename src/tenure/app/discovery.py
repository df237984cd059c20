"""Finds the modules of an application whose handlers an app should know."""

import importlib
import pkgutil
from collections.abc import Iterable


def import_all(modules: Iterable[str]) -> None:
    """Import modules, and all modules of packages."""
    for name in modules:
        module = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), prefix=f"{name}."):
            importlib.import_module(found.name)
