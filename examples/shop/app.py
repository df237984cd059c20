"""The shop on the backend of the settings: `tenure --app shop.app:app dashboard`."""

from .jobs import shop

app = shop()
