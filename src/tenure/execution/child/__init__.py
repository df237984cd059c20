"""Runs in a child process: reads orders, calls handlers, writes reports."""
