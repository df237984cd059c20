"""A job of the project that is not a task."""

from tenure.integrations.django import job


@job
def count() -> int:
    return 1
