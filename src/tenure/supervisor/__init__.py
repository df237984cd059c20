"""Keeps several worker processes running: replaces those that die, passes signals on, and reports to systemd."""
