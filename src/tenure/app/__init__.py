"""Builds the objects of all layers from the settings; the only folder that imports all layers below it."""

from tenure.app.tenure import Tenure

__all__ = ["Tenure"]
