"""Counting: listeners that turn events into numbers; nothing else in Tenure counts."""
