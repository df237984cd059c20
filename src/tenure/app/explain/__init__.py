"""Explaining: why a job is not running, or how it ended; facts are gathered, then a pure function decides."""
