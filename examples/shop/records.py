"""What workers counted in the last day, and what the people of the shop did."""

import math

from tenure import Tenure
from tenure.backends.records import AuditRecord
from tenure.clock import MICROSECOND
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, DurationHistogram, Tally

from .fleet import WORKERS

_SLOTS = 288  # a day
# handler: queue, jobs in a usual slot of five minutes, seconds of a run, share of attempts that fail
_USUAL = {
    "send_receipt": ("emails", 150, 0.4, 0.004),
    "send_welcome": ("emails", 36, 0.4, 0.004),
    "resize_image": ("images", 190, 1.8, 0.013),
    "import_products": ("imports", 2, 210.0, 0.02),
    "render_invoice": ("invoices", 70, 0.9, 0.002),
    "charge_order": ("invoices", 56, 1.1, 0.006),
    "deliver_webhook": ("webhooks", 230, 0.2, 0.05),
    "fetch_prices": ("webhooks", 3, 2.5, 0.03),
    "clean_carts": ("reports", 1, 4.0, 0.0),
}
_BROKEN = "supplier sends a broken file, ask the catalogue team before you resume"
_STOPPED = {"cancelled": 212, "too_late": 3}
_PEOPLE = (
    # minutes ago, who, action, target, why, counts, total
    (52, "ops", "queue.pause", "imports", _BROKEN, {"paused": 1}, None),
    (171, "oncall", "dead.replay", "handler=resize_image", "the codec is installed now", {"replayed": 18}, 18),
    (340, "ops", "jobs.cancel", "state=delayed&queue=emails", "campaign was stopped", _STOPPED, 215),
    (612, "oncall", "guard.reset", "lock:nightly-report", "its worker was shut down", {"reset": 1}, None),
    (1130, "catalogue", "schedule.run", "fetch-prices", None, {"enqueued": 1}, None),
)


def save_statistics(app: Tenure, end: int) -> None:
    """A tally for each handler and slot: less at night, and failures while the payment gateway is away."""
    stats = app.parts().stats
    if stats is None:
        return
    last = end // SLOT_MICROSECONDS * SLOT_MICROSECONDS
    tallies = []
    for place in range(_SLOTS):
        slot = last - place * SLOT_MICROSECONDS
        hour = slot / MICROSECOND / 3600 % 24
        load = (0.35 + 0.65 * max(0.0, math.sin((hour - 5) / 24 * math.tau / 1.1))) * (1 + 0.08 * math.sin(place * 1.7))
        share = (end - slot) / SLOT_MICROSECONDS if place == 0 else 1.0
        for handler, (queue, jobs, seconds, failing) in _USUAL.items():
            done = round(jobs * load * share)
            failed = round(done * failing * (1 + math.sin(place + jobs)))
            dead = int(handler == "resize_image" and place % 29 == 7)
            if handler == "charge_order" and place <= 5:
                done, failed, dead = (0, 40, 3) if place else (0, 0, 0)
            if handler == "import_products" and place <= 10:
                done, failed = 0, 0
            tallies.append(Tally(slot, queue, handler, WORKERS[queue], _counts(done, failed, dead, seconds)))
    for first in range(0, len(tallies), 500):
        stats.save(tallies[first : first + 500])


def _counts(done: int, failed: int, dead: int, seconds: float) -> Counts:
    runs = done + failed
    statuses = {"acked": done, "requeued": max(0, failed - dead), "dead-lettered": dead}
    return Counts(
        statuses={status: count for status, count in statuses.items() if count},
        failed=failed,
        waits=_durations(done, 0.3 + seconds * 0.2),
        runs=_durations(runs, seconds),
        cpu=runs * seconds * 0.4,
    )


def _durations(count: int, usual: float) -> DurationHistogram:
    """As durations spread around a usual one, with a few that take much longer."""
    found = DurationHistogram()
    for factor, share in ((0.6, 0.2), (0.9, 0.3), (1.0, 0.25), (1.4, 0.15), (2.2, 0.07), (4.5, 0.03)):
        if times := round(count * share):
            one = DurationHistogram()
            one.add(usual * factor)
            bucket = next(iter(one.buckets))
            found.buckets[bucket] = found.buckets.get(bucket, 0) + times
            found.total += usual * factor * times
    return found


def save_audit(app: Tenure, end: int) -> None:
    audit = app.parts().audit
    if audit is None:
        return
    for minutes, actor, action, target, why, counts, total in _PEOPLE:
        at = end - minutes * 60 * MICROSECOND
        stamp = f"{at // 1000:012x}"
        audit.save(
            AuditRecord(
                id=f"{stamp[:8]}-{stamp[8:]}-7000-8000-{minutes:012x}",
                at=at,
                actor=actor,
                action=action,
                target=target,
                why=why,
                total=total,
                counts=counts,
                ended_at=at + 2 * MICROSECOND,
            )
        )
