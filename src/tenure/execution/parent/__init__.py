"""Runs in the worker's process: starts children, sends them orders, reads their reports, kills and replaces them."""
