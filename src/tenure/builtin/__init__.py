"""The built-in handlers `command`, `shell`, `closure`, `event` and `url`; each does only what the settings allow."""
