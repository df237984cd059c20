"""The checks of the doctor: each is a pure function of the facts and returns one finding."""

from collections import Counter
from collections.abc import Callable, Iterable

from tenure.app.doctor.facts import DoctorFacts, Finding, ScheduleFacts, Severity
from tenure.backends.records import Fact

STOP_MARGIN = 15.0  # seconds beyond the stop grace, for settling and for the end of child processes
_SHORTEST_LEASE = 5.0
_SAFE_SQLITE = (3, 51, 3)
_SKEW_WARNING, _SKEW_PROBLEM = 1.0, 30.0  # seconds
_MAX_LISTED = 5
_OUTBOX_SECONDS = 60.0  # a relay moves a job in less than a second


def _schema(facts: DoctorFacts) -> Finding:
    if facts.schema is None:
        return _not_applicable("schema", "this backend has none")
    stored, needed = facts.schema
    if stored != needed:
        text = f"the database has version {stored}, and this release needs {needed}"
        return Finding("schema", "problem", text, "run `tenure db migrate`")
    taken = f"; just migrated: {', '.join(facts.steps_taken)}" if facts.steps_taken else ""
    return _ok("schema", f"version {stored}{taken}")


def _indexes(facts: DoctorFacts) -> Finding:
    if facts.missing_indexes is None:
        return _not_applicable("indexes", "this backend has none")
    if facts.missing_indexes:
        text = f"missing, or not valid: {', '.join(facts.missing_indexes)}; without them leasing becomes slow"
        advice = "`tenure db sql` prints the statements: create them again"
        return Finding("indexes", "problem", text, advice)
    return _ok("indexes", "all exist")


def _durability(facts: DoctorFacts) -> Finding:
    return _server_fact(
        facts, "durability", "durability", "configure the server to write to its disk before it answers"
    )


def _memory(facts: DoctorFacts) -> Finding:
    return _server_fact(facts, "memory", "eviction", "set maxmemory-policy to noeviction")


def _wake_ups(facts: DoctorFacts) -> Finding:
    advice = "connect workers directly, or set listen=off in the URL: workers then poll every 25 ms"
    return _server_fact(facts, "wake-ups", "wake-ups", advice, severity="warning")


def _sqlite(facts: DoctorFacts) -> Finding:
    if facts.sqlite is None:
        return _not_applicable("sqlite", "this backend does not use SQLite")
    version = ".".join(map(str, facts.sqlite))
    if facts.sqlite < _SAFE_SQLITE:
        text = f"SQLite {version} can damage a database when two connections checkpoint at once; Tenure allows only one"
        advice = "do not write to the file with other programs, or use a Python with SQLite 3.51.3 or newer"
        return Finding("sqlite", "warning", text, advice)
    return _ok("sqlite", f"SQLite {version}")


def _clock(facts: DoctorFacts) -> Finding:
    if facts.skew is None:
        return _not_applicable("clock", "the backend has no clock of its own")
    advice = "synchronise all hosts with the same time server (NTP): delays, expiries and schedules depend on it"
    fast = {name: ahead for name, ahead in facts.ahead.items() if ahead > _SKEW_WARNING}
    if abs(facts.skew) > _SKEW_WARNING:
        text = f"the server's clock is {abs(facts.skew):.1f} s {'ahead of' if facts.skew > 0 else 'behind'} this host's"
        verdict: Severity = "problem" if abs(facts.skew) > _SKEW_PROBLEM else "warning"
        return Finding("clock", verdict, text, advice)
    if fast:
        text = (
            f"clocks of workers are ahead of the server's: {_listed(f'{name} by {fast[name]:.1f} s' for name in fast)}"
        )
        return Finding("clock", "warning", text, advice)
    return _ok("clock", f"within {_SKEW_WARNING:g} s of the server's")


def _stopping(facts: DoctorFacts) -> Finding:
    timing = facts.timing
    if timing.lease < _SHORTEST_LEASE:
        text = f"a lease of {timing.lease:g} s leaves little time for a slow renewal; a late renewal kills the job"
        advice = f"raise the setting lease to {_SHORTEST_LEASE:g} or more; 15 is right for most apps"
        return Finding("stopping", "warning", text, advice)
    slow = {name: seconds for name, seconds in timing.runs.items() if seconds > timing.stop_grace}
    advice = "raise the setting stop_grace, or save the progress of these handlers"
    if slow:
        longest = _listed(f"{name} ({slow[name]:.0f} s)" for name in sorted(slow, key=lambda name: -slow[name]))
        text = (
            f"handlers run longer than the stop grace of {timing.stop_grace:g} s, so a deploy restarts them: {longest}"
        )
        return Finding("stopping", "warning", text, advice)
    if timing.default_timeout is not None and timing.default_timeout > timing.stop_grace:
        text = f"jobs may run for {timing.default_timeout:g} s, and a stop gives them {timing.stop_grace:g} s"
        return Finding("stopping", "warning", text, advice)
    text = f"leases of {timing.lease:g} s, and {timing.stop_grace:g} s to stop"
    return _ok(
        "stopping", f"{text}; a service manager must allow workers {timing.stop_grace + STOP_MARGIN:g} s to stop"
    )


def _keys(facts: DoctorFacts) -> Finding:
    keys = facts.keys
    if keys is None:
        return _not_applicable("keys", "the keys are not known")
    if not keys.verify:
        text, advice = (
            "signatures are not checked: every program that can write to the queue can run jobs",
            "set verify to true",
        )
        return Finding("keys", _job_loss(facts), text, advice)
    if "development" in keys.ring[:1]:
        text, advice = "messages are signed with a publicly known key", "make one with `tenure key new`"
        return Finding("keys", "warning", text, advice)
    return _sealed(facts)


def _sealed(facts: DoctorFacts) -> Finding:
    keys = facts.keys
    if keys is None or keys.sealed is None:
        return _not_applicable("keys", "this backend cannot list its waiting messages")
    unsigned, sealed = keys.sealed.get("", 0), {kid: count for kid, count in keys.sealed.items() if kid}
    unknown = {kid: count for kid, count in sealed.items() if kid not in keys.ring}
    old = {kid: count for kid, count in sealed.items() if kid in keys.ring[1:]}
    where = "messages wait" if keys.whole else f"of the first {sum(keys.sealed.values())} messages wait"
    if unsigned:
        text, advice = (
            f"{unsigned} {where} without a signature",
            "find the program that puts them; workers move them to the dead letters",
        )
        return Finding("keys", "problem", text, advice)
    if unknown:
        listed = _listed(f"{count} by {kid!r}" for kid, count in unknown.items())
        text = f"{where}, sealed with keys that are not in the ring: {listed}"
        return Finding(
            check="keys", verdict="problem", text=text, advice="put these keys into the ring of every worker"
        )
    if old:
        listed = _listed(f"{count} by {kid!r}" for kid, count in old.items())
        text = f"{where}, sealed with keys that no longer sign: {listed}"
        return Finding("keys", "warning", text, "keep these keys in the ring until the messages are done")
    return _ok("keys", f"all {where.removesuffix(' wait')} that wait were sealed with {keys.ring[0]!r}")


def _key_file(facts: DoctorFacts) -> Finding:
    if facts.key_file_fault is not None:
        return Finding("key file", "problem", facts.key_file_fault, "until then Tenure does not open this database")
    if facts.key_file is None:
        return _not_applicable("key file", "the keys are in the settings, or in memory")
    return _ok("key file", f"only its owner can read or replace {facts.key_file!r}")


def _payloads(facts: DoctorFacts) -> Finding:
    if facts.sample is None:
        return _not_applicable("payloads", "not checked: name your app with --app, and use a backend that lists jobs")
    if not facts.sample.unrunnable:
        return _ok("payloads", f"handlers accept all of the {facts.sample.seen} waiting jobs that were read")
    kinds = Counter((job.handler, job.reason) for job in facts.sample.unrunnable)
    listed = _listed(f"{count} of {handler!r} ({reason})" for (handler, reason), count in kinds.most_common())
    text = f"of {facts.sample.seen} waiting jobs, this app cannot run {listed}"
    advice = f"deploy the missing code or keys; `tenure explain {facts.sample.unrunnable[0].id}` explains one of them"
    return Finding("payloads", "problem", text, advice)


def _workers(facts: DoctorFacts) -> Finding:
    if facts.unserved is None:
        return _not_applicable("workers", "this backend has no registry of workers")
    if facts.undeployed:
        listed = _listed(f"{handler} ({count} waiting)" for handler, count in sorted(facts.undeployed.items()))
        text = f"handlers that no worker on their queue has: {listed}"
        return Finding("workers", "problem", text, "deploy the code that has them, or start its workers")
    if facts.unserved:
        listed = _listed(f"{queue} ({count} ready)" for queue, count in sorted(facts.unserved.items()))
        advice = f"start one with `tenure work {min(facts.unserved)}`"
        return Finding("workers", "warning", f"no worker listens on {listed}", advice)
    return _ok("workers", "every queue with ready jobs has a worker")


def _schedules(facts: DoctorFacts) -> Finding:
    if facts.schedules is None:
        return _not_applicable("schedules", "there are none")
    late = [each for each in facts.schedules if _is_late(each)]
    if late and all(each.entered is None or _is_late(each) for each in facts.schedules):
        text = f"no scheduler runs: the last ticks of {_listed(each.name for each in late)} are not in the ledger"
        advice = "start `tenure cron work`, or workers with --with-cron"
        return Finding("schedules", "problem", text, advice)
    behind = [each.name for each in late if each.entered is not None]
    if behind:
        text, advice = (
            f"the last ticks of {_listed(behind)} are not in the ledger",
            "run `tenure cron history` for each",
        )
        return Finding("schedules", "warning", text, advice)
    return _ok("schedules", "a scheduler runs")


def _dead_letters(facts: DoctorFacts) -> Finding:
    deaths = facts.deaths
    if deaths is None:
        return _not_applicable("dead letters", "this backend stores no statistics")
    letters = "" if deaths.letters is None else f"{deaths.letters} dead letters; "
    text = f"{letters}{deaths.hour} died in the last hour, {deaths.day} in the last day"
    if deaths.hour >= 10 and deaths.hour * 24 > 3 * deaths.day:
        advice = "`tenure dead list --newer-than 1h` shows them with their reasons"
        return Finding("dead letters", "warning", f"their number grows: {text}", advice)
    return _ok("dead letters", text)


def _kept_payloads(facts: DoctorFacts) -> Finding:
    kept = facts.kept_payloads
    if kept is None:
        return _not_applicable("old payloads", "this backend does not keep the payloads of ended jobs")
    limit = f"retention.payload_bytes allows {_megabytes(facts.payload_bytes)}"
    text = f"{kept.jobs} ended jobs have their payloads, {_megabytes(kept.bytes)}; {limit}"
    if kept.bytes > 1.5 * facts.payload_bytes:
        advice = "a worker erases the oldest once an hour: check that one runs, or run `tenure clean`"
        return Finding("old payloads", "warning", text, advice)
    return _ok("old payloads", text)


def _outboxes(facts: DoctorFacts) -> Finding:
    if not facts.outboxes:
        return _not_applicable("outboxes", "the setting outboxes names no database")
    if failed := [each for each in facts.outboxes if each.failure is not None]:
        return Finding("outboxes", "problem", failed[0].failure or "", "check the setting outboxes")
    refused = [f"{each.name} ({each.refused} jobs)" for each in facts.outboxes if each.refused]
    late = [f"{each.name} ({each.jobs} jobs, the oldest {each.untried_age:.0f} s)" for each in facts.outboxes
            if each.untried_age > _OUTBOX_SECONDS]  # fmt: skip
    if late:
        advice = "start `tenure outbox work`, or workers with --with-outbox; if one runs, its log has the reason"
        return Finding("outboxes", "warning", f"no relay empties {_listed(late)}", advice)
    if refused:
        advice = "`tenure outbox list --refused` shows the errors"
        return Finding("outboxes", "warning", f"backends refused jobs of {_listed(refused)}", advice)
    return _ok("outboxes", f"{sum(each.jobs for each in facts.outboxes)} jobs wait, none longer than a minute")


CHECKS: tuple[Callable[[DoctorFacts], Finding], ...] = (
    *(_schema, _indexes, _durability, _memory, _wake_ups, _sqlite, _clock, _stopping, _keys),
    *(_key_file, _payloads, _workers, _schedules, _dead_letters, _kept_payloads, _outboxes),
)


def examine(facts: DoctorFacts) -> list[Finding]:
    """The findings of all checks; one finding if the backend or its key cannot be used."""
    if facts.failure is not None:
        variable = "TENURE_URL_OVERRIDE, which replaces the setting url" if facts.is_overridden else "the setting url"
        advice = f"check {variable}, and whether the server runs"
        return [Finding("backend", "problem", facts.failure, advice)]
    if facts.key_file_fault is not None:
        return [_key_file(facts)]
    return [_backend(facts), *(check(facts) for check in CHECKS)]


def _backend(facts: DoctorFacts) -> Finding:
    if facts.is_overridden:
        text = f"{facts.place} answers; TENURE_URL_OVERRIDE replaces the URL of the app by it"
        return Finding("backend", "warning", text, "remove the variable when the test or the emergency is over")
    return _ok("backend", f"{facts.place} answers")


def _server_fact(facts: DoctorFacts, about: str, check: str, advice: str, severity: Severity | None = None) -> Finding:
    """The finding from what the server reports about itself."""
    found: Fact | None = next((fact for fact in facts.server if fact.about == about), None)
    if found is None:
        return _not_applicable(check, "no server setting affects it")
    if found.warning:
        return Finding(check, severity or _job_loss(facts), found.text, advice)
    return _ok(check, found.text)


def _job_loss(facts: DoctorFacts) -> Severity:
    """How severe it is that jobs may be lost: in development only a warning."""
    return "warning" if facts.environment == "development" else "problem"


def _is_late(schedule: ScheduleFacts) -> bool:
    return schedule.due is not None and (schedule.entered or 0) < schedule.due


def _ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def _not_applicable(check: str, text: str) -> Finding:
    return Finding(check, "not applicable", text)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _listed(words: Iterable[str]) -> str:
    listed = list(words)
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    return ", ".join(listed[:_MAX_LISTED]) + more
