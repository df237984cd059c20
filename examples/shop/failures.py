"""Real tracebacks of the shop's own code, with the paths of a server and not of this checkout.

The modules below are small, but they run: each traceback comes from an exception that was raised.
"""

import linecache
from collections.abc import Callable
from types import ModuleType

from tenure.definition.failure import Failure, from_exception

_LIBRARIES = "/srv/shop/.venv/lib/python3.11/site-packages"
_SOURCES = {
    f"{_LIBRARIES}/acme_http/transport.py": """\
class ConnectTimeout(OSError):
    pass


class HTTPStatusError(Exception):
    pass


def connect(host, timeout):
    raise ConnectTimeout(f"{host} did not answer within {timeout} s")


def read(host, path, status):
    raise HTTPStatusError(f"{host} answered {status} to GET {path}")
""",
    f"{_LIBRARIES}/acme_http/client.py": """\
import transport


class Client:
    def __init__(self, host, timeout=10):
        self.host = host
        self.timeout = timeout

    def post(self, path, json):
        return self._send("POST", path, json)

    def get(self, path):
        return transport.read(self.host, path, 503)

    def _send(self, method, path, json):
        connection = transport.connect(self.host, self.timeout)
        return connection.request(method, path, json)
""",
    "/srv/shop/shop/payments.py": """\
import client

gateway = client.Client("payments.example")


def charge(order, amount):
    payment = {"reference": f"order-{order}", "amount": amount, "currency": "EUR"}
    try:
        return gateway.post("/v1/payments", json=payment)
    except client.transport.ConnectTimeout as error:
        raise PaymentFailed(f"order {order} was not charged: the gateway is away") from error


class PaymentFailed(Exception):
    pass
""",
    "/srv/shop/shop/images.py": """\
SIGNATURES = {b"\\x89PNG": "png", b"\\xff\\xd8\\xff": "jpeg"}


class UnknownImageFormat(ValueError):
    pass


def resize(path, width, data):
    image = decode(path, data)
    return image.scaled(width)


def decode(path, data):
    for signature, format in SIGNATURES.items():
        if data.startswith(signature):
            return format
    raise UnknownImageFormat(f"cannot identify image file {path!r}")
""",
    "/srv/shop/shop/prices.py": """\
import client


def fetch(supplier):
    feed = client.Client(f"feeds.{supplier}.example")
    rows = feed.get("/v2/prices.csv")
    return len(rows)
""",
    "/srv/shop/shop/webhooks.py": """\
import client


def deliver(url, event):
    target = client.Client(url.split("/")[2], timeout=5)
    return target.post("/hooks", json={"event": event})
""",
}


def _load() -> dict[str, ModuleType]:
    """The modules, each known to the others by the last part of its path."""
    loaded: dict[str, ModuleType] = {}

    def import_loaded(name: str, *_: object) -> ModuleType:
        return loaded[name]

    builtins = {**vars(__import__("builtins")), "__import__": import_loaded}
    for path, source in _SOURCES.items():
        name = path.rpartition("/")[2].removesuffix(".py")
        linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
        module = ModuleType(name)
        module.__dict__["__builtins__"] = builtins
        exec(compile(source, path, "exec"), module.__dict__)
        loaded[name] = module
    return loaded


_MODULES = _load()
_CALLS: dict[str, Callable[[int], object]] = {
    "charge_order": lambda number: _MODULES["payments"].charge(number, "49.90"),
    "resize_image": lambda number: _MODULES["images"].resize(f"/srv/shop/uploads/{number}.heic", 800, b"\0\0\0 ftyp"),
    "fetch_prices": lambda _: _MODULES["prices"].fetch("northwind"),
    "deliver_webhook": lambda _: _MODULES["webhooks"].deliver("https://partner.example/hooks", "order.paid"),
}


def failure_of(handler: str, number: int, at: int, attempt: int) -> Failure:
    """The failure of an attempt of this handler; `number` is that of its order or picture."""
    try:
        _CALLS[handler](number)
    except Exception as error:
        trace = error.__traceback__
        assert trace is not None
        own = trace.tb_next.tb_next if trace.tb_next else trace  # the frames of this file are not the shop's
        return from_exception(error.with_traceback(own), at, attempt)
    raise AssertionError(f"{handler} was expected to fail")
