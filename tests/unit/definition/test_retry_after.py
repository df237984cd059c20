"""RetryAfter: the policy that waits as long as a server asks for."""

from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from io import BytesIO
from types import SimpleNamespace
from urllib.error import HTTPError

import pytest
import requests

from tenure import Backoff, RetryAfter
from tenure.definition.retry import find_retry_after, retry_after
from tenure.errors import InvalidHandler, InvalidJob

NOW = 1_000_000.0


class Throttled(Exception):
    def __init__(self, **facts):
        super().__init__("slow down")
        self.__dict__.update(facts)


def answer_of_requests(**headers):
    response = requests.Response()
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return requests.HTTPError("429", response=response)


def error_of_urllib(**headers):
    message = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPError("http://api.test/", 429, "Too Many Requests", message, BytesIO())  # type: ignore[arg-type]


def caused_by(cause):
    error = RuntimeError("the import failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("1.5", 1.5),
        ("9" * 400, 999999999),
        (formatdate(NOW + 90, usegmt=True), 90),
        (formatdate(NOW - 1000, usegmt=True), 0),
        (7, 7),
        (2.5, 2.5),
        (timedelta(minutes=1), 60),
        (datetime.fromtimestamp(NOW + 30, UTC), 30),
        (datetime.fromtimestamp(NOW - 30, UTC), 0),
        ("", None),
        ("soon", None),
        ("-5", None),
        (".", None),
        ("\u0661", None),
        (-1, None),
        (timedelta(seconds=-1), None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        (datetime(2030, 1, 1), None),
        (None, None),
        ([5], None),
    ],
)
def test_a_retry_after_is_a_number_of_seconds_or_a_date(value, seconds):
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    "error",
    [
        Throttled(retry_after=17),
        Throttled(headers={"Retry-After": "17"}),
        Throttled(headers={"retry-after": "17"}),
        Throttled(response=SimpleNamespace(headers={"Retry-After": "17"})),
        answer_of_requests(Retry_After="17"),
        error_of_urllib(Retry_After="17"),
        caused_by(Throttled(retry_after=17)),
        caused_by(caused_by(answer_of_requests(Retry_After="17"))),
        Throttled(retry_after="soon", headers={"Retry-After": "17"}),
    ],
)
def test_it_is_found_where_libraries_put_it(error):
    assert RetryAfter().delay(1, error) == 17.0


class Strange(Exception):
    @property
    def response(self):
        raise RuntimeError("there is no response")


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("no"),
        Throttled(retry_after="soon"),
        Throttled(headers=None, response=None),
        Throttled(headers=["Retry-After", "17"]),
        requests.ConnectionError("no route"),
        answer_of_requests(),
        HTTPError("http://api.test/", 429, "Too Many Requests", None, None),  # type: ignore[arg-type]
        Strange(),
    ],
)
def test_without_a_valid_one_the_default_decides(error):
    assert RetryAfter(Backoff("fixed", base=9)).delay(1, error) == 9.0
    assert RetryAfter().delay(1, error) is None


def test_the_default_gets_the_retry_and_the_error():
    class Growing:
        def delay(self, retry, error):
            return retry if isinstance(error, KeyError) else 0

    assert RetryAfter(Growing()).delay(4, KeyError("x")) == 4


@pytest.mark.parametrize(("cap", "seconds"), [("1h", 3600.0), ("10m", 600.0), (timedelta(days=7), 86_400.0)])
def test_a_long_one_is_capped(cap, seconds):
    assert RetryAfter(cap=cap).delay(1, Throttled(retry_after=86_400)) == seconds


def test_a_chain_of_causes_that_returns_to_itself_ends():
    first, second = Throttled(), Throttled()
    first.__cause__, second.__cause__ = second, first

    assert find_retry_after(first, NOW) is None


def test_a_wrong_default_or_cap_is_refused():
    with pytest.raises(InvalidHandler, match="the retry policy of RetryAfter must be an object"):
        RetryAfter(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="the cap of RetryAfter 'soon' is not a duration"):
        RetryAfter(cap="soon")
