"""Schedules: when jobs are due, in which order they run, and what happens to ticks that were missed."""
