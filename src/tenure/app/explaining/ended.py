"""How a job ended, and what happened in each attempt."""

from tenure.app.explaining.facts import Attempt, Reason
from tenure.backends.asking import JobRecord

# What each reason of a death means, and what somebody should do before the job is tried again.
DEATHS = {
    "retries_exhausted": ("every attempt that it was allowed failed", "mend the cause, then"),
    "timeout": ("the last attempt that it was allowed ran past its timeout", "give it more time, or mend it, then"),
    "crash_loop": ("whoever ran it died, more often than max_crashes allows", "find what kills its process, then"),
    "invalid_payload": ("its payload does not fit the handler", "mend the handler, or enqueue it anew;"),
    "forbidden": ("its queue, or the settings of a built-in handler, do not allow it", "allow it, then"),
    "malformed": ("its bytes are not an envelope", "somebody else put it there;"),
    "bad_signature": ("its signature is wrong, or is for another queue or id", "it was forged or moved;"),
    "wrong_audience": ("it was sealed for another audience", "see the setting audience;"),
    "out_of_scope": ("its key may not sign for its queue or handler", "see the setting scopes;"),
    "unknown_handler": ("no worker had its handler in time", "deploy the handler, then"),
    "unknown_key": ("no worker had its key in time", "put the key into the ring, then"),
    "unsupported_version": ("it was made by a newer release", "upgrade the workers, then"),
    "newer_payload": ("its payload is newer than every worker's handler", "deploy the newer handler, then"),
}


def end(job: JobRecord) -> Reason:
    """The answer for a job that has ended."""
    since = job.finished_at
    if job.state != "dead":
        return Reason(code=job.state, text=f"it is {job.state}{f': {job.reason}' if job.reason else ''}", since=since)
    what, first = DEATHS.get(job.reason or "", (f"for the reason {job.reason!r}", "mend the cause, then"))
    text = f"it is dead: {what}" + (f" ({job.reason})" if job.reason in DEATHS else "")
    return Reason(code="dead", text=text, since=since, advice=f"{first} `tenure dead replay {job.id}`")


def attempts(job: JobRecord) -> tuple[Attempt, ...]:
    """Those that are kept: the newest failures, and the one that ended the job well."""
    failed = tuple(Attempt(number=each.attempt, failure=each, run=each.run) for each in job.failures)
    last = job.failures[-1].run if job.failures else None
    if job.run is None or job.run == last:
        return failed
    return (*failed, Attempt(number=job.attempts + 1, run=job.run))
