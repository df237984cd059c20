"""Priorities: Django's -100 … 100 as one of the ten levels by which Tenure orders jobs.

0 has the level 5 for itself, which is that of jobs without a priority. Four levels are above it, for 25 priorities
each, and five below it, for 20 each. Jobs of one level run in the order in which they were enqueued.
"""

from tenure.definition.job import DEFAULT_PRIORITY

_ABOVE, _BELOW = 25, 20  # how many of Django's priorities share a level


def level_of(priority: int) -> int:
    """The level, 0 to 9, of one of Django's priorities."""
    if priority > 0:
        return DEFAULT_PRIORITY + (priority + _ABOVE - 1) // _ABOVE
    return DEFAULT_PRIORITY - (_BELOW - 1 - priority) // _BELOW


def lowest_of(level: int) -> int:
    """The priority of this level that is the nearest to 0, for jobs whose own priority is no longer known."""
    steps = level - DEFAULT_PRIORITY
    if steps > 0:
        return (steps - 1) * _ABOVE + 1
    return (steps + 1) * _BELOW - 1 if steps else 0
