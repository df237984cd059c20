"""Calls that a type checker must refuse: each line marked as an error, and no other."""

from datetime import datetime, timedelta

from tenure import Context, Fail, Job, Retry, Snooze, Tenure
from tenure.integrations.celery import CeleryApp

app = Tenure("memory://")


@app.job
def send(user_id: int, text: str = "hello") -> str:
    return f"{text} {user_id}"


@app.job(queue="emails", max_retries=3)
def send_with_options(user_id: int, *, text: str = "hello") -> str:
    return f"{text} {user_id}"


@app.job
def ping(ctx: Context, host: str) -> None: ...


@app.job(timeout=30)
def ping_with_options(ctx: Context, host: str) -> None: ...


class OldPolicy:
    def delay(self, retry: int) -> float:
        return 60.0 * retry


@app.job
async def fetch(url: str) -> bytes:
    return url.encode()


@CeleryApp(app).task(bind=True)
def bound_task(self: object, order: int) -> str:
    return str(order)


send()  # error
send("seven")  # error
send.call(user_id="seven")  # error
ping.call(7)  # error
ping.call_with("a.example")  # error
send.enqueue()  # error
send.enqueue("seven")  # error
send.enqueue(user_id="seven")  # error
send.enqueue(user_di=7)  # error
send.enqueue(7, "bye", 3)  # error
send.enqueue(7, subject="bye")  # error
send.build(user_id=None)  # error
send.using(delay="10m").enqueue(user_id="seven")  # error
send.using(retries=3)  # error
send.using(priority="urgent")  # error
send.using(max_retries="3")  # error
send.using(handler="other")  # error
send.using(at=b"tomorrow")  # error
send_with_options.enqueue(7, "bye")  # error
send_with_options.enqueue(text="bye")  # error
ping.enqueue()  # error
ping.enqueue(ctx=None, host="a.example")  # error
ping.enqueue(7)  # error
ping_with_options.enqueue(host=7)  # error
fetch.enqueue(url=7)  # error
fetch.enqueue()  # error
app.enqueue("send")  # error
app.enqueue_many([7])  # error
app.enqueue(send.build(7).replace(prio=3))  # error
app.enqueue(send.build(7).replace(queue=3))  # error
Job(payload=1)  # error
Job(handler="send", priority="high")  # error
app.define("send").options(retries=3)  # error
app.define("send").priority("urgent")  # error
app.define("send").scheduled_at(timedelta(1))  # error
app.schedule(send).daily()  # error
app.schedule(send, user_id="seven").daily()  # error
app.enqueue(send, user="seven")  # error
app.enqueue(print)  # error
send.using(then=send)  # error
send.delay(7)  # error
app.task(send)  # error
app.schedule("send").misfire("some")  # error
app.schedule("send").overlap("never")  # error
app.register("report", "Report")  # error
app.job(retries=3)  # error
app.job(retry_on="ConnectionError")  # error
app.job(give_up_on=404)  # error
app.job(give_up_on=(404,))  # error
app.job(retry=3)  # error
app.job(retry=OldPolicy())  # error
Retry(delay=[5])  # error
Snooze()  # error
Fail()  # error
length: int = send.enqueue(7)  # error
moment: datetime = send.build(7)  # error
number: int = send.enqueue(7).result()  # error
fetched: str = fetch.enqueue(url="https://a.example").result()  # error
send.enqueue(7).result(timeout=[])  # error
send.enqueue(7).reschedule(at=b"tomorrow")  # error
app.worker(7)  # error
app.resolve_queue(send)  # error
app.queues.add("emails")  # error
bound_task.delay("seven")  # error
bound_task.delay(bound_task, 7)  # error
task_result: int = bound_task.delay(7).get()  # error
