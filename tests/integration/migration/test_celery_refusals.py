"""What the adapter for Celery does not support is refused, and the error says what to write instead."""

from typing import Any

import pytest

from tenure.errors import InvalidHandler, NotSupported
from tenure.integrations.celery import AsyncResult, CeleryApp, chain, chord, group


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"routing_key": "a"}, "use queue="),
        ({"serializer": "pickle"}, "payloads are JSON"),
        ({"compression": "gzip"}, "compression"),
        ({"retry": True}, "BackendUnavailable"),
        ({"ignore_result": True}, "on the decorator"),
        ({"shadow": "b"}, r"using\(name="),
        ({"time_limit": 30, "soft_time_limit": 20}, "one limit"),
        ({"nonsense": 1}, "migration guide"),
        ({"link": "add"}, "take signatures"),
    ],
)
def test_an_option_of_apply_async_without_a_counterpart_is_refused(celery, options, told):
    @celery.task
    def ping() -> None: ...

    with pytest.raises(NotSupported, match=told):
        ping.apply_async(**options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"acks_late": False}, "max_crashes=0"),
        ({"base": object}, "handler class"),
        ({"throws": (OSError,)}, "leave it out"),
        ({"rate_limit": "1/d"}, "rate_limit='100/m'"),
        ({"retry_kwargs": {"max_retries": 1, "eta": 1}, "autoretry_for": (OSError,)}, "retry_kwargs"),
        ({"default_retry_delay": "soon"}, "seconds or a timedelta"),
    ],
)
def test_an_option_of_the_decorator_without_a_counterpart_is_refused(celery, options, told):
    with pytest.raises(NotSupported, match=told):

        @celery.task(**options)
        def ping() -> None: ...


def test_a_priority_is_refused_until_the_app_says_how_the_broker_counted(app):
    @CeleryApp(app).task
    def ping() -> None: ...

    with pytest.raises(NotSupported, match="highest_priority=0"):
        ping.apply_async(priority=3)


def test_what_else_cannot_work_says_what_to_write(celery):
    @celery.task(bind=True)
    def add(self: Any, a: int) -> int:
        return a

    with pytest.raises(NotSupported, match=r"a=tenure\.PARENT_RESULT"):
        chain(add.s(1), add.s())()
    for call in (lambda: group(add.s(1)), lambda: chord([add.s(1)]), chain):
        with pytest.raises(NotSupported):
            call()
    with pytest.raises(NotSupported, match="kwargs"):
        add.retry(kwargs={"a": 1})
    with pytest.raises(NotSupported, match="max_retries"):
        add.retry(max_retries=9)
    with pytest.raises(NotSupported, match="interval"):
        AsyncResult(celery.app.handle("a")).get(interval=1)
    with pytest.raises(InvalidHandler, match=r"\*args"):
        celery.task(name="any")(lambda *args: None)
    for owner, name, told in [
        (add, "update_state", "progress"), (add, "apply", "eager"), (add.request, "hostname", "current_context"),
        (celery, "control", "cancel"), (celery, "conf", "settings"), (celery.AsyncResult("a"), "forget", "retention"),
    ]:  # fmt: skip
        with pytest.raises(AttributeError, match=told):
            getattr(owner, name)
