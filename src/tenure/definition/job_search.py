"""JobSearch: the arguments by which users select jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from tenure.definition.duration import Duration
from tenure.definition.job_function import JobFunction


class JobSearch(TypedDict, total=False):
    """Which jobs: those that match every given member; None is as good as none.

    `state` is one state or several. `handler` is its key or its function. `newer` and `older` limit the time of the
    end, or of the enqueue while a job has not ended: "2h" ago, or a datetime with a time zone. `text` is searched in
    the id, name, reason, result and errors. A job has all of the `tags`, of which an index finds the first.
    `meta` are members that the meta of a job must have: Tenure reads the message of every job that the other members
    select. `limit` is the largest number of jobs.
    """

    state: str | Sequence[str] | None
    queue: str | None
    handler: "str | JobFunction[..., Any] | None"
    name: str | None
    tags: str | Sequence[str] | None
    meta: Mapping[str, Any] | None
    text: str | None
    newer: Duration | datetime | None
    older: Duration | datetime | None
    limit: int | None
