"""The jobs of the day: their payloads, names and tags, how long they take, and which of them fail."""

from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from tenure import Tenure
from tenure.definition.job import Job

_SHARES = {  # of the jobs of a usual minute
    "send_receipt": 30,
    "deliver_webhook": 26,
    "resize_image": 18,
    "render_invoice": 12,
    "charge_order": 8,
    "send_welcome": 7,
    "import_products": 2,
}
_SECONDS = {  # of a usual run
    "send_receipt": 0.4,
    "send_welcome": 0.4,
    "send_digest": 40.0,
    "deliver_webhook": 0.2,
    "resize_image": 1.8,
    "render_invoice": 0.9,
    "charge_order": 1.1,
    "import_products": 210.0,
    "nightly_report": 340.0,
    "clean_carts": 4.0,
    "fetch_prices": 2.5,
}
_FAILING = {"deliver_webhook": 0.12, "resize_image": 0.04}  # the share of jobs that fail at first
_BILLING = "billing@shop.example"
_SUPPLIERS = ("northwind", "alder", "brookfield")
_PEOPLE = ("ada", "grace", "linus", "margaret", "alan", "barbara", "edsger", "radia")


@dataclass(frozen=True)
class Order:
    """A job of the day; `fatal` ones never succeed, `failures` is how often it fails before it succeeds."""

    job: Job
    number: int
    result: str | None
    failures: int = 0
    fatal: bool = False

    def fails(self, attempts: int, offset: float) -> bool:
        """Whether the attempt fails; `offset` is its time, in seconds before the end of the day."""
        if self.job.handler == "charge_order":
            return offset >= PAYMENTS_AWAY
        return self.fatal or attempts < self.failures


PAYMENTS_AWAY = -26 * 60.0


class Orders:
    """Makes the jobs, and knows what will become of each."""

    def __init__(self, app: Tenure, random: Random) -> None:
        self._app = app
        self._random = random
        self._number = 88_411
        self.known: dict[str, Order] = {}

    def any(self, now: int) -> Job:
        """A job as they come all day; pictures of a wrong format come among others."""
        found = self._random.choices(list(_SHARES), list(_SHARES.values()))[0]
        fatal = found == "resize_image" and self._random.random() < 0.07
        failures = self._random.choice((1, 1, 2)) if self._random.random() < _FAILING.get(found, 0) else 0
        return self.make(now, found, failures=failures, fails=fatal)

    def make(
        self, now: int, handler: str, *, failures: int = 0, fails: bool = False, name: str | None = None, **options: Any
    ) -> Job:
        self._number += self._random.randint(1, 3)
        payload, label, tags = self._payload(handler)
        job = self._app.define(handler, payload).options(**options).named(name or label).tags(*tags).build()
        if handler == "charge_order":
            job = job.replace(
                then=self._app.define("render_invoice", {"order": self._number}).build(),
                on_failure=self._app.define(
                    "send_receipt", {"order": self._number, "email": "billing@shop.example"}
                ).build(),
                meta={"checkout": f"session-{self._number * 7 % 9973}", "country": "ES"},
            )
        return self.add(job.replace(id=self._id(now)), failures=failures, fails=fails)

    def add(self, job: Job, *, failures: int = 0, fails: bool = False) -> Job:
        assert job.id is not None
        self.known[job.id] = Order(job, self._number, self._result(job), failures, fails)
        return job

    def seconds(self, id: str) -> float:
        """How long the next attempt takes."""
        usual = _SECONDS[self.known[id].job.handler]
        return round(usual * self._random.lognormvariate(0, 0.35), 3)

    def _id(self, now: int) -> str:
        """A UUIDv7 with the time of the shop's clock, so that ids are the same each time."""
        stamp, noise = f"{now // 1000:012x}", self._random.getrandbits(74)
        tail = f"{noise >> 62 & 0xFFF:03x}", f"{0x8000 | noise >> 48 & 0x3FFF:04x}", f"{noise & 0xFFFFFFFFFFFF:012x}"
        return f"{stamp[:8]}-{stamp[8:]}-7{tail[0]}-{tail[1]}-{tail[2]}"

    def _payload(self, handler: str) -> tuple[dict[str, Any], str, tuple[str, ...]]:
        """The arguments, the name and the tags of a job."""
        number, person = self._number, self._random.choice(_PEOPLE)
        order = f"order {number}"
        tenant = f"tenant={self._random.randint(1, 24)}"
        match handler:
            case "send_welcome":
                return {"user_id": number % 9000, "email": f"{person}@mail.example"}, f"user {number % 9000}", (tenant,)
            case "send_receipt":
                return {"order": number, "email": f"{person}@mail.example"}, order, (tenant, "checkout")
            case "send_digest":
                return {"segment": "weekly", "users": 1840}, "weekly digest", ()
            case "resize_image":
                file = f"uploads/{number}.jpg"
                return {"path": file, "width": self._random.choice((320, 800, 1600))}, file, (tenant,)
            case "import_products":
                supplier = self._random.choice(_SUPPLIERS)
                return {"file": f"{supplier}-{number}.csv", "supplier": supplier}, supplier, (f"supplier={supplier}",)
            case "render_invoice":
                return {"order": number, "language": self._random.choice(("en", "es", "de"))}, order, (tenant,)
            case "charge_order":
                amount = f"{number % 190 + 9}.90"
                return {"order": number, "amount": amount, "card_token": f"tok_{number}"}, order, (tenant, "checkout")
            case "deliver_webhook":
                url = f"https://partner-{number % 7}.example/hooks"
                return {"url": url, "event": "order.paid", "order": number}, order, (tenant, "event=order.paid")
            case "nightly_report":
                return {"day": "2026-11-14"}, "nightly-report", ("month-end",)
        return {}, handler, ()

    def _result(self, job: Job) -> str | None:
        match job.handler:
            case "send_receipt" | "send_welcome":
                found: Any = f"sent to {job.payload['email']}"
            case "resize_image":
                found = {
                    "path": job.payload["path"].replace(".", f"-{job.payload['width']}."),
                    "bytes": self._number % 900 * 811,
                }
            case "import_products":
                found = {"new": self._number % 40, "changed": self._number % 900, "gone": self._number % 7}
            case "deliver_webhook":
                found = 200
            case "fetch_prices":
                found = 1280 + self._number % 60
            case "clean_carts":
                found = self._number % 30
            case "charge_order":
                found = {"order": self._number, "paid": job.payload["amount"], "reference": f"pay-{self._number * 31}"}
            case "render_invoice":
                found = f"invoices/{self._number}.pdf"
            case _:
                return None
        return msgspec.json.encode(found).decode()
