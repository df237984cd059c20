"""Checks: each a pure function of the facts, with one finding."""

from collections import Counter
from collections.abc import Callable, Iterable

from tenure.app.doctor.facts import DoctorFacts, Finding, ScheduleFacts, Severity
from tenure.backends.records import Fact

MARGIN = 15.0  # seconds beyond the stop grace: for settling, and for children to end
_SHORTEST_LEASE = 5.0
_WHOLE_SQLITE = (3, 51, 3)
_SKEW, _GREAT_SKEW = 1.0, 30.0
_SHOWN = 5


def _schema(facts: DoctorFacts) -> Finding:
    if facts.schema is None:
        return _none("schema", "this backend has none")
    stored, needed = facts.schema
    if stored != needed:
        text = f"the database has version {stored}, and this release needs {needed}"
        return Finding("schema", "problem", text, "run `tenure db migrate`")
    taken = f"; brought up to date just now: {', '.join(facts.steps_taken)}" if facts.steps_taken else ""
    return _fine("schema", f"version {stored}{taken}")


def _indexes(facts: DoctorFacts) -> Finding:
    if facts.missing_indexes is None:
        return _none("indexes", "this backend has none")
    if facts.missing_indexes:
        text = f"missing, or not valid: {', '.join(facts.missing_indexes)}; claims grow slow without them"
        advice = "`tenure db sql` prints the statements: create them again"
        return Finding("indexes", "problem", text, advice)
    return _fine("indexes", "all are there")


def _durability(facts: DoctorFacts) -> Finding:
    return _told(facts, "durability", "durability", "have the server write to its disk before it answers")


def _memory(facts: DoctorFacts) -> Finding:
    return _told(facts, "memory", "eviction", "set maxmemory-policy to noeviction")


def _wake_ups(facts: DoctorFacts) -> Finding:
    advice = "connect workers directly, or say listen=off in the URL: they look every 25 ms then"
    return _told(facts, "wake-ups", "wake-ups", advice, worst="warning")


def _sqlite(facts: DoctorFacts) -> Finding:
    if facts.sqlite is None:
        return _none("sqlite", "this is another backend")
    version = ".".join(map(str, facts.sqlite))
    if facts.sqlite < _WHOLE_SQLITE:
        text = f"SQLite {version} can damage a database when two connections checkpoint at once; Tenure lets only one"
        advice = "let no other program write to the file, or use a Python with SQLite 3.51.3 or newer"
        return Finding("sqlite", "warning", text, advice)
    return _fine("sqlite", f"SQLite {version}")


def _clock(facts: DoctorFacts) -> Finding:
    if facts.skew is None:
        return _none("clock", "the backend has no clock of its own")
    advice = "have all hosts follow the same time server (NTP): delays, expiries and schedules go by it"
    fast = {name: ahead for name, ahead in facts.ahead.items() if ahead > _SKEW}
    if abs(facts.skew) > _SKEW:
        text = f"the server's clock is {abs(facts.skew):.1f} s {'ahead of' if facts.skew > 0 else 'behind'} this host's"
        verdict: Severity = "problem" if abs(facts.skew) > _GREAT_SKEW else "warning"
        return Finding("clock", verdict, text, advice)
    if fast:
        text = f"clocks of workers are ahead of the server's: {_some(f'{name} by {fast[name]:.1f} s' for name in fast)}"
        return Finding("clock", "warning", text, advice)
    return _fine("clock", f"within {_SKEW:g} s of the server's")


def _stopping(facts: DoctorFacts) -> Finding:
    timing = facts.timing
    if timing.lease < _SHORTEST_LEASE:
        text = f"a lease of {timing.lease:g} s leaves little time for a slow renewal, after which its job is killed"
        advice = f"raise the setting lease to {_SHORTEST_LEASE:g} or more; 15 suits most"
        return Finding("stopping", "warning", text, advice)
    slow = {name: seconds for name, seconds in timing.runs.items() if seconds > timing.stop_grace}
    advice = "raise the setting stop_grace, or let handlers save how far they are"
    if slow:
        longest = _some(f"{name} ({slow[name]:.0f} s)" for name in sorted(slow, key=lambda name: -slow[name]))
        text = (
            f"handlers run longer than the stop grace of {timing.stop_grace:g} s, and start over at deploys: {longest}"
        )
        return Finding("stopping", "warning", text, advice)
    if timing.default_timeout is not None and timing.default_timeout > timing.stop_grace:
        text = f"jobs may run for {timing.default_timeout:g} s, and a stop gives them {timing.stop_grace:g} s"
        return Finding("stopping", "warning", text, advice)
    text = f"leases of {timing.lease:g} s, and {timing.stop_grace:g} s to stop"
    return _fine("stopping", f"{text}; whoever stops workers must give them {timing.stop_grace + MARGIN:g} s")


def _keys(facts: DoctorFacts) -> Finding:
    keys = facts.keys
    if keys is None:
        return _none("keys", "nothing is known of the keys")
    if not keys.verify:
        text, advice = "signatures are not checked: anybody who can write to the queue runs jobs", "set verify to true"
        return Finding("keys", _worst(facts), text, advice)
    if "development" in keys.ring[:1]:
        text, advice = "messages are signed with a key that everybody knows", "make one with `tenure key new`"
        return Finding("keys", "warning", text, advice)
    return _sealed(facts)


def _sealed(facts: DoctorFacts) -> Finding:
    keys = facts.keys
    if keys is None or keys.sealed is None:
        return _none("keys", "this backend cannot show its waiting messages")
    unsigned, sealed = keys.sealed.get("", 0), {kid: count for kid, count in keys.sealed.items() if kid}
    unknown = {kid: count for kid, count in sealed.items() if kid not in keys.ring}
    old = {kid: count for kid, count in sealed.items() if kid in keys.ring[1:]}
    where = "messages wait" if keys.whole else f"of the first {sum(keys.sealed.values())} messages wait"
    if unsigned:
        text, advice = (
            f"{unsigned} {where} without a signature",
            "find who puts them; workers move them to the dead letters",
        )
        return Finding("keys", "problem", text, advice)
    if unknown:
        listed = _some(f"{count} by {kid!r}" for kid, count in unknown.items())
        text = f"{where}, sealed with keys that are not in the ring: {listed}"
        return Finding(
            check="keys", verdict="problem", text=text, advice="put these keys into the ring of every worker"
        )
    if old:
        listed = _some(f"{count} by {kid!r}" for kid, count in old.items())
        text = f"{where}, sealed with keys that do not sign any more: {listed}"
        return Finding("keys", "warning", text, "keep them in the ring until these are done")
    return _fine("keys", f"all {where.removesuffix(' wait')} that wait were sealed with {keys.ring[0]!r}")


def _payloads(facts: DoctorFacts) -> Finding:
    if facts.sample is None:
        return _none("payloads", "name your app with --app, on a backend that lists jobs, to have them compared")
    if not facts.sample.misfits:
        return _fine("payloads", f"handlers accept all of the {facts.sample.seen} waiting jobs that were looked at")
    kinds = Counter((misfit.handler, misfit.reason) for misfit in facts.sample.misfits)
    listed = _some(f"{count} of {handler!r} ({reason})" for (handler, reason), count in kinds.most_common())
    text = f"of {facts.sample.seen} waiting jobs, no handler here accepts {listed}"
    advice = f"deploy what they need; `tenure explain {facts.sample.misfits[0].id}` tells about one"
    return Finding("payloads", "problem", text, advice)


def _workers(facts: DoctorFacts) -> Finding:
    if facts.unserved is None:
        return _none("workers", "this backend does not know its workers")
    if facts.undeployed:
        listed = _some(f"{handler} ({count} wait)" for handler, count in sorted(facts.undeployed.items()))
        text = f"handlers that no worker on their queue has: {listed}"
        return Finding("workers", "problem", text, "deploy the code that has them, or start its workers")
    if facts.unserved:
        listed = _some(f"{queue} ({count} ready)" for queue, count in sorted(facts.unserved.items()))
        advice = f"start one with `tenure work {min(facts.unserved)}`"
        return Finding("workers", "warning", f"no worker listens on {listed}", advice)
    return _fine("workers", "every queue with ready jobs has a worker")


def _schedules(facts: DoctorFacts) -> Finding:
    if facts.schedules is None:
        return _none("schedules", "there are none")
    late = [each for each in facts.schedules if _is_late(each)]
    if late and all(each.entered is None or _is_late(each) for each in facts.schedules):
        text = f"nobody keeps the schedules: the last ticks of {_some(each.name for each in late)} were not entered"
        advice = "start `tenure cron work`, or workers with --with-cron"
        return Finding("schedules", "problem", text, advice)
    behind = [each.name for each in late if each.entered is not None]
    if behind:
        text, advice = f"last ticks were not entered of {_some(behind)}", "see `tenure cron history` of each"
        return Finding("schedules", "warning", text, advice)
    return _fine("schedules", "somebody keeps them")


def _dead_letters(facts: DoctorFacts) -> Finding:
    deaths = facts.deaths
    if deaths is None:
        return _none("dead letters", "this backend keeps no statistics")
    letters = "" if deaths.letters is None else f"{deaths.letters} dead letters; "
    text = f"{letters}{deaths.hour} died in the last hour, {deaths.day} in the last day"
    if deaths.hour >= 10 and deaths.hour * 24 > 3 * deaths.day:
        advice = "`tenure dead list --newer-than 1h` shows them, and why"
        return Finding("dead letters", "warning", f"they grow: {text}", advice)
    return _fine("dead letters", text)


CHECKS: tuple[Callable[[DoctorFacts], Finding], ...] = (
    *(_schema, _indexes, _durability, _memory, _wake_ups, _sqlite, _clock, _stopping, _keys),
    *(_payloads, _workers, _schedules, _dead_letters),
)


def examine(facts: DoctorFacts) -> list[Finding]:
    """What every check finds; where the backend cannot be opened, only that."""
    if facts.failure is not None:
        advice = "see the setting url, and whether the server is up"
        return [Finding("backend", "problem", facts.failure, advice)]
    return [_fine("backend", f"{facts.place} is there"), *(check(facts) for check in CHECKS)]


def _told(facts: DoctorFacts, about: str, check: str, advice: str, worst: Severity | None = None) -> Finding:
    """What the server itself says."""
    found: Fact | None = next((fact for fact in facts.server if fact.about == about), None)
    if found is None:
        return _none(check, "there is no server that decides it")
    if found.warning:
        return Finding(check, worst or _worst(facts), found.text, advice)
    return _fine(check, found.text)


def _worst(facts: DoctorFacts) -> Severity:
    """What may cost jobs is a problem, unless nobody minds."""
    return "warning" if facts.environment == "development" else "problem"


def _is_late(kept: ScheduleFacts) -> bool:
    return kept.due is not None and (kept.entered or 0) < kept.due


def _fine(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def _none(check: str, text: str) -> Finding:
    return Finding(check, "not applicable", text)


def _some(words: Iterable[str]) -> str:
    listed = list(words)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
