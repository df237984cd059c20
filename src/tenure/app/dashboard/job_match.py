"""Which jobs a filter means, decided job by job; pure functions of records."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from tenure.app.dashboard.filters import JobQuery, has_pattern, moment_of
from tenure.backends.job_filter import failure_text
from tenure.backends.records import JobRecord

Match = Callable[[JobRecord], bool]


def job_match(
    query: JobQuery,
    now: int,
    wants_queue: Callable[[str], bool],
    texts: Callable[[JobRecord], Sequence[str]],
    holders: Mapping[str, str],
) -> Match:
    """Whether a job matches every term of a filter that has no fault, and lies in a queue that the user sees.

    `texts` are those in which bare words are searched. `holders` are the workers that hold jobs, by the id of the job.
    """
    values = {
        **_VALUES,
        "worker": lambda job, value: _has_worker(_workers_of(job, holders), value),
        "text": lambda job, value: _has_text(texts(job), value),
    }
    checks = [check for key, has in values.items() if (check := _check(query, key, has)) is not None]
    states, wants_time = query.states(), _time_match(query, now)
    if query.wanted("state") or query.unwanted("state"):
        checks.append(lambda job: job.state in states)
    return lambda job: wants_queue(job.queue) and wants_time(job) and all(check(job) for check in checks)


def queue_match(query: JobQuery, sees: Callable[[str], bool], resolve: Callable[[str], str]) -> Callable[[str], bool]:
    """Whether the user sees a queue and the filter means it."""
    wanted, unwanted = queue_patterns(query.wanted("queue"), resolve), queue_patterns(query.unwanted("queue"), resolve)
    return lambda queue: (
        sees(queue)
        and (not wanted or any(has_pattern(each, queue) for each in wanted))
        and not any(has_pattern(each, queue) for each in unwanted)
    )


def queue_patterns(patterns: Iterable[str], resolve: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(each if each.endswith("*") else resolve(each) for each in patterns)


def texts_of(job: JobRecord) -> list[str]:
    """What bare words are searched in, besides the result."""
    return [job.id, job.name or "", job.reason or "", *map(failure_text, job.failures)]


def _has_text(texts: Iterable[str], value: str) -> bool:
    return any(value.casefold() in text.casefold() for text in texts)


def _workers_of(job: JobRecord, holders: Mapping[str, str]) -> set[str]:
    """The workers that hold the job, or had it."""
    last = None if job.run is None else job.run.worker
    known = (holders.get(job.id), last, *(failure.worker for failure in job.failures))
    return {worker for worker in known if worker}


def _has_id(job: JobRecord, value: str) -> bool:
    return job.id.startswith(value) or job.id.endswith(value)


def _has_error(job: JobRecord, value: str) -> bool:
    return _has_text(map(failure_text, job.failures), value)


def _has_worker(workers: Iterable[str], value: str) -> bool:
    """A worker by its id, or by the name of its host, with which its id begins."""
    return any(has_pattern(value, worker) or worker.startswith(f"{value}:") for worker in workers)


_VALUES: dict[str, Callable[[JobRecord, str], bool]] = {
    "handler": lambda job, value: has_pattern(value, job.handler),
    "tag": lambda job, value: value in job.tags,
    "reason": lambda job, value: has_pattern(value, job.reason),
    "error": _has_error,
    "id": _has_id,
}


def _check(query: JobQuery, key: str, has: Callable[[JobRecord, str], bool]) -> Match | None:
    """The check of one key: a job has one of the wanted values, all of the wanted words, and nothing unwanted."""
    wanted, unwanted = query.wanted(key), query.unwanted(key)
    if not wanted and not unwanted:
        return None
    enough = all if key == "text" else any
    return lambda job: (
        (not wanted or enough(has(job, value) for value in wanted)) and not any(has(job, value) for value in unwanted)
    )


def _time_match(query: JobQuery, now: int) -> Match:
    """Since and until limit the time of the end, or of the enqueue while the job has not ended."""
    since, until = query.one("since"), query.one("until")
    first = 0 if since is None else moment_of(since, now)
    last = None if until is None else moment_of(until, now)
    if since is None and last is None:
        return lambda _: True
    return lambda job: (
        (job.finished_at or job.enqueued_at) >= first and (last is None or (job.finished_at or job.enqueued_at) < last)
    )
