"""What cannot be a handler is refused at registration, with a message that says what to write."""

import functools
from typing import Any

import pytest

from tenure import Context, Tenure
from tenure.errors import InvalidHandler


@pytest.fixture
def app():
    with Tenure("memory://") as app:
        yield app


def test_a_method_is_refused(app):
    with pytest.raises(InvalidHandler, match=r"Mailer\.send' is a method, .* write a function outside the class"):

        class Mailer:
            @app.job
            def send(self, user: int) -> None: ...


def test_a_class_method_written_below_the_decorator_is_refused(app):
    with pytest.raises(InvalidHandler, match=r"the classmethod '.*Mailer\.send'; move the function out of its class"):

        class Mailer:
            @app.job
            @classmethod
            def send(cls, user: int) -> None: ...


def test_a_static_method_is_refused(app):
    with pytest.raises(InvalidHandler, match=r"the staticmethod '.*Mailer\.send'; move the function out of its class"):

        class Mailer:
            @app.job
            @staticmethod
            def send(user: int) -> None: ...


def test_a_function_in_a_class_without_self_is_a_job(app):
    class Mailer:
        @app.job
        def send(user: int) -> None: ...  # type: ignore[misc]  # noqa: N805

    assert Mailer.send.build(user=1).payload == {"user": 1}


def test_the_method_of_an_object_is_a_job(app):
    class Mailer:
        def send(self, user: int) -> int:
            return user

    assert app.job(Mailer().send)(user=1) == 1


def test_a_context_that_is_not_the_first_parameter_is_refused(app):
    with pytest.raises(InvalidHandler, match=r"as 'ctx: .*Context'; .*: def ping\(ctx: Context, \.\.\.\)"):

        @app.job
        def ping(host: str, ctx: Context) -> None: ...


def test_a_context_that_is_optional_or_a_keyword_is_refused(app):
    with pytest.raises(InvalidHandler, match="annotated with Context alone"):

        @app.job
        def ping(ctx: Context | None, host: str) -> None: ...

    with pytest.raises(InvalidHandler, match="write it as the first parameter"):

        @app.job
        def pong(*, ctx: Context) -> None: ...


def test_a_context_in_the_wrong_place_of_a_handler_class_is_refused(app):
    class Report:
        def handle(self, payload: dict[str, Any], ctx: Context) -> None: ...

    with pytest.raises(InvalidHandler, match=r"def handle\(ctx: Context"):
        app.register("report", Report)


def test_a_lambda_is_a_job_only_under_a_key(app):
    with pytest.raises(InvalidHandler, match=r'write a function with def, or give it a key: @app\.job\(name="key"\)'):
        app.job(lambda user: None)

    assert app.job(name="one")(lambda user: user).build(user=1).handler == "one"


def test_an_object_without_a_name_is_a_job_only_under_a_key(app):
    class Greeter:
        def __call__(self, user: int) -> None: ...

    for made in (Greeter(), functools.partial(print, "hello")):
        with pytest.raises(InvalidHandler, match="give it a key"):
            app.job(made)


def test_a_class_is_refused_with_a_word_about_register(app):
    with pytest.raises(InvalidHandler, match=r'write app\.register\("key", Report\)'):

        @app.job
        class Report:
            def handle(self) -> None: ...


def test_a_coroutine_is_refused_in_place_of_its_function(app):
    async def ping() -> None: ...

    with pytest.raises(InvalidHandler, match="pass the function, without calling it"):
        app.job(ping())


def test_an_option_without_its_name_is_refused(app):
    with pytest.raises(InvalidHandler, match=r"got 'emails'; options have names"):
        app.job("emails")


def test_register_refuses_what_is_not_a_class(app):
    with pytest.raises(InvalidHandler, match=r"app\.register\('report', \.\.\.\) takes a class"):
        app.register("report", object())
    with pytest.raises(InvalidHandler, match=r"got the function 'print'; write @app\.job\(name='report'\)"):
        app.register("report", print)
