"""The jobs and schedules of an online shop: the app that the dashboard shows in the documentation and in its tests."""

from collections.abc import Callable
from typing import Any

from tenure import Backoff, Context, Tenure
from tenure.clock import Clock
from tenure.definition.handler import HandlerOptions

QUEUES = ("emails", "images", "imports", "invoices", "reports", "webhooks")
RETRIES = Backoff(base=20, jitter=0)


def send_welcome(user_id: int, email: str) -> str:
    return f"sent to {email}"


def send_receipt(order: int, email: str) -> str:
    return f"receipt of order {order} sent to {email}"


def send_digest(segment: str, users: int) -> dict[str, int]:
    return {"sent": users}


def resize_image(path: str, width: int) -> dict[str, Any]:
    return {"path": path.replace(".", f"-{width}."), "width": width}


def import_products(ctx: Context, file: str, supplier: str) -> dict[str, int]:
    return {"new": 0, "changed": 0}


def render_invoice(order: int, language: str = "en") -> str:
    return f"invoices/{order}.pdf"


def charge_order(order: int, amount: str, card_token: str) -> dict[str, Any]:
    return {"order": order, "paid": amount}


def deliver_webhook(url: str, event: str, order: int) -> int:
    return 200


def fetch_prices(supplier: str) -> int:
    return 0


def nightly_report(ctx: Context, day: str = "yesterday") -> str:
    return f"reports/{day}.csv"


def clean_carts(older_than: str = "30d") -> int:
    return 0


_HANDLERS: dict[Callable[..., Any], HandlerOptions] = {
    send_welcome: {"queue": "emails", "max_retries": 5, "timeout": 30, "backoff": RETRIES},
    send_receipt: {"queue": "emails", "max_retries": 5, "timeout": 30, "backoff": RETRIES},
    send_digest: {"queue": "emails", "max_retries": 2, "timeout": 60},
    resize_image: {"queue": "images", "max_retries": 2, "timeout": 120, "backoff": RETRIES},
    import_products: {"queue": "imports", "max_retries": 1, "timeout": 7200},
    render_invoice: {"queue": "invoices", "max_retries": 3, "timeout": 60},
    charge_order: {"queue": "invoices", "max_retries": 4, "timeout": 20, "breaker": "payments", "backoff": RETRIES},
    deliver_webhook: {"queue": "webhooks", "max_retries": 8, "timeout": 10, "backoff": RETRIES},
    fetch_prices: {"queue": "webhooks", "max_retries": 3, "timeout": 60, "backoff": RETRIES},
    nightly_report: {"queue": "reports", "max_retries": 1, "timeout": 3600, "single_instance": True},
    clean_carts: {"queue": "reports", "max_retries": 1, "timeout": 600},
}


def shop(url: str | None = None, clock: Clock | None = None, **settings: Any) -> Tenure:
    """The app of the shop, on the backend of this URL."""
    given: dict[str, Any] = {
        "queues": QUEUES,
        "rates": {"webhooks": "20/s"},
        "aliases": {"mail": "emails"},
        "breaker_cooldown": 1800,
        "max_memory": 512,
        "timezone": "Europe/Madrid",
        **settings,
    }
    app = Tenure(url, clock=clock, **given)
    for function, options in _HANDLERS.items():
        app.job(**options)(function)
    _add_schedules(app)
    return app


def _add_schedules(app: Tenure) -> None:
    app.schedule("nightly_report").named("nightly-report").daily_at("02:30").misfire("latest")
    app.schedule("clean_carts").named("clean-carts").every("30m")
    app.schedule("fetch_prices", {"supplier": "northwind"}).named("fetch-prices").cron("5 * * * *")
    app.schedule("send_digest", {"segment": "all", "users": 1840}).named("daily-digest").cron("30 8 * * *")
    app.schedule("import_products", {"file": "stock.csv", "supplier": "northwind"}).named("stock-import").every("1h")
    app.schedule("render_invoice", {"order": 0}).named("monthly-invoices").cron("0 6 1 * *")
    app.schedule("clean_carts", {"older_than": "1h"}).named("clean-test-carts").every("10m").environments("staging")
