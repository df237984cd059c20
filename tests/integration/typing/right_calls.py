"""Calls that a type checker must accept, and the types it must see."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, assert_type

from tenure import (
    PARENT_ERROR,
    PARENT_RESULT,
    Backoff,
    Cancel,
    Context,
    Fail,
    Job,
    JobBuilder,
    JobFunction,
    JobHandle,
    JobInfo,
    Postpone,
    Retry,
    RetryAfter,
    RetryPolicy,
    ScheduleBuilder,
    Snooze,
    Tenure,
    current_context,
)
from tenure.errors import RequestFailed
from tenure.events import RescheduleResult
from tenure.integrations.celery import CeleryApp, shared_task
from tenure.integrations.dramatiq import DramatiqApp
from tenure.integrations.huey import HueyApp
from tenure.integrations.rq import RqQueue
from tenure.worker.worker import Worker

app = Tenure("memory://", max_retries=3)


@app.job
def send(user_id: int, text: str = "hello") -> str:
    return f"{text} {user_id}"


@app.job(queue="emails", max_retries=3, timeout="30s", backoff="fixed", priority="high")
def send_with_options(user_id: int, *, text: str = "hello") -> str:
    return f"{text} {user_id}"


@app.job
def ping(ctx: Context, host: str) -> int:
    return len(ctx.id + host)


@app.job(retry=Backoff("none"))
def ping_with_options(ctx: Context, host: str) -> int:
    return len(ctx.id + host)


class Patient:
    def delay(self, retry: int, error: Exception | None) -> float | str | timedelta | None:
        return None if error is None else retry * 60


def is_busy(error: RequestFailed) -> bool:
    return error.status == 503


@app.job(max_retries=3, retry=Patient(), retry_on=ConnectionError, give_up_on=(ValueError, KeyError))
def call(url: str) -> None:
    raise Fail("no such page", reason="gone")


@app.job(max_retries=3, retry=RetryAfter(Backoff(base=1), cap="10m"), retry_on=is_busy, give_up_on=[OSError])
def call_later(url: str) -> None:
    raise Retry("not yet", delay=timedelta(minutes=1))


@app.job(give_up_on=lambda error: error.status == 404)
async def wait_for(url: str) -> None:
    raise Snooze("10m", "closed")


@app.job
async def fetch(url: str) -> bytes:
    return url.encode()


@app.job(queue="web")
async def fetch_with_context(ctx: Context, url: str) -> bytes:
    return (ctx.id + url).encode()


@app.job()
def without_options(numbers: list[int]) -> None: ...


@app.job
def nothing() -> None: ...


@app.job
def archive(name: str, sent: str = PARENT_RESULT, error: str | None = PARENT_ERROR) -> None: ...


@app.job
def count(sent: str = PARENT_RESULT) -> int:
    return len(sent)


class Report:
    max_retries = 2
    retry_on = (ConnectionError, TimeoutError)
    give_up_on = ValueError

    def handle(self, context: Context, payload: dict[str, int]) -> None: ...


policies: list[RetryPolicy] = [Backoff(), Patient(), RetryAfter(), RetryAfter(Patient())]
waits: list[Exception] = [
    Retry(delay=5),
    Retry(delay="5s"),
    Retry(delay=datetime(2030, 1, 1, tzinfo=UTC)),
    Snooze(timedelta(hours=1)),
    Postpone(datetime(2030, 1, 1, tzinfo=UTC)),
    Cancel("withdrawn"),
]
assert_type(send(7), str)
assert_type(send.enqueue(7), JobHandle[str])
assert_type(send.enqueue(user_id=7, text="bye"), JobHandle[str])
assert_type(ping("a.example"), int)
assert_type(ping.call("a.example"), int)
assert_type(ping.call_with(Context(id="1", handler="ping", payload=None, queue="web"), host="a.example"), int)
assert_type(send.build(user_id=7), Job)
assert_type(send.using(delay="10m", priority=8).enqueue(user_id=7), JobHandle[str])
assert_type(send.using(at=datetime(2030, 1, 1, tzinfo=UTC)).using(timeout=timedelta(minutes=1)).build(7), Job)
assert_type(send.using(at="tomorrow 09:00", expires_at=1893456000).build(7), Job)
assert_type(app.define("report").scheduled_at("next monday 8am"), JobBuilder)
assert_type(send_with_options.enqueue(7, text="bye"), JobHandle[str])
assert_type(ping.enqueue("a.example"), JobHandle[int])
assert_type(ping.enqueue(host="a.example"), JobHandle[int])
assert_type(ping_with_options.using(queue="slow").enqueue(host="a.example"), JobHandle[int])
assert_type(fetch.enqueue(url="https://a.example"), JobHandle[bytes])
assert_type(fetch_with_context.enqueue(url="https://a.example"), JobHandle[bytes])
assert_type(without_options.enqueue([1, 2]), JobHandle[None])
assert_type(send.enqueue(7).result(timeout="30s"), str)
assert_type(ping.using(delay=5).enqueue("a.example").result(), int)
assert_type(fetch.enqueue(url="https://a.example").result(), bytes)
assert_type(fetch_with_context.using(queue="slow").enqueue(url="https://a.example").result(), bytes)
assert_type(send.enqueue(7).info(), JobInfo)
assert_type(send.enqueue(7).reschedule(at="tomorrow 09:00"), RescheduleResult)
assert_type(app.handle("an-id", int).result(), int)
assert_type(app.handle("an-id", list[int]), JobHandle[list[int]])
assert_type(app.handle("an-id"), JobHandle[Any])
assert_type(app.enqueue_many(send.build(user_id=number) for number in range(3)), list[JobHandle[Any]])
assert_type(app.enqueue(send.build(7).replace(priority="low", delay=5, meta={"tenant": "a"})), JobHandle[Any])
assert_type(app.enqueue(send, 7, text="bye"), JobHandle[str])
assert_type(app.enqueue(ping, host="a.example"), JobHandle[int])
assert_type(app.enqueue(fetch, "https://a.example"), JobHandle[bytes])
assert_type(app.schedule(send, user_id=7).daily_at("02:00"), ScheduleBuilder)
assert_type(app.schedule(nothing).hourly(), ScheduleBuilder)
assert_type(send.using(then=nothing, chain=[nothing, send.build(7)]).build(7), Job)
assert_type(send.using(then=[archive.build("a"), count], finally_=archive.build(name="a")).build(7), Job)
assert_type(app.schedule(send, user_id=7).every("10s"), ScheduleBuilder)
assert_type(app.schedule(send, user_id=7).every(timedelta(minutes=90)), ScheduleBuilder)
assert_type(app.define("report", {"month": 6}).then(nothing, app.define("report")), JobBuilder)
assert_type(app.define("report", {"month": 6}).named("monthly").queue("reports").max_retries(3), JobBuilder)
assert_type(app.define("report", {"month": 6}).daily_at("02:00").dispatch(), JobHandle[Any])
assert_type(app.schedule(send.build(7)).daily_at("02:00", timezone="Europe/Madrid").queue("emails"), ScheduleBuilder)
assert_type(app.schedule("report", {"month": 6}).monthly().misfire("all", limit=5).overlap("skip"), ScheduleBuilder)
assert_type(app.schedules.get("report").occurrence(0), Job)
assert_type(current_context().time_left, float | None)

app.register("report", Report, queue="reports", priority="low")


class Reports:
    name = "reports"
    aliases = ("papers",)

    def setup(self, worker: str) -> None: ...


class Tenants:
    name: ClassVar[str] = "tenants"


@dataclass(frozen=True)
class Named:
    name: str


app.queues.add(Reports)
app.queues.add(Named("tenant-7"))
assert_type(app.resolve_queue(Reports), str)
assert_type(app.resolve_queue(Tenants), str)
assert_type(app.worker("emails", Reports, Reports(), Tenants, Named("tenant-8")), Worker)


async def wait() -> None:
    assert_type(await fetch("https://a.example"), bytes)
    assert_type(await fetch.enqueue("https://a.example").aresult(), bytes)
    assert_type(await send.enqueue(7).aresult(timeout=1), str)
    assert_type(await fetch_with_context.call(url="https://a.example"), bytes)


id_of_a_job: str = send.enqueue(7)


def takes_a_job_function(function: JobFunction[[int], None]) -> str:
    return function.enqueue(7)


celery = CeleryApp(app)


@celery.task(bind=True, max_retries=5)
def bound_task(self: Any, order: int) -> str:
    return str(order)


@shared_task
def plain_task(order: int) -> int:
    return order


@DramatiqApp(app).actor(queue_name="emails")
def actor(order: int) -> float:
    return order / 2


@HueyApp(app).task(retries=3)
def huey_task(order: int) -> bytes:
    return bytes(order)


assert_type(bound_task.delay(7).get(timeout=1), str)
assert_type(bound_task.apply_async((7,), countdown=60).get(), str)
assert_type(plain_task.delay(order=7).get(), int)
assert_type(plain_task(7), int)
assert_type(actor.send(7).get_result(block=True), float)
assert_type(huey_task(7)(blocking=True), bytes | None)
assert_type(RqQueue(app).enqueue(send, 7).return_value(), str | None)
