"""Handlers that come with Tenure: `command`, `shell`, `closure`, `event` and `url`; none does what nobody allowed."""
