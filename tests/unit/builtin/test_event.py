"""The event handler accepts allowed names only, calls every listener, and reports all failures together."""

import pytest

from tenure import Tenure
from tenure.errors import InvalidHandler, JobFailed, Refused

ALLOWED = {"event": {"allow": ["order.paid"]}}
PAID = {"name": "order.paid", "data": {"id": 7}}


def test_every_listener_is_given_the_data(make_app, outcome_of):
    app, seen = make_app(**ALLOWED), []
    app.on("order.paid")(seen.append)
    app.on("order.paid")(lambda data: seen.append(data["id"]))

    record = outcome_of(app, "event", PAID)

    assert (seen, record.output) == ([{"id": 7}, 7], "2")


def test_a_coroutine_function_may_listen(make_app, outcome_of):
    app, seen = make_app(**ALLOWED), []

    @app.on("order.paid")
    async def listen(data):
        seen.append(data)

    assert (outcome_of(app, "event", PAID).state, seen) == ("done", [{"id": 7}])


def test_the_decorator_gives_the_function_back(make_app):
    assert make_app(**ALLOWED).on("order.paid")(print) is print


def test_without_an_allowlist_nothing_is_told_and_the_message_says_what_to_set(make_app):
    with pytest.raises(Refused, match=r"'event\.allow'.*\[tool\.tenure\.event\]"):
        make_app().define("event", PAID).dispatch()


@pytest.mark.parametrize("name", ["order.cancelled", "order", "order.*", "*", "", "ORDER.PAID", "order.paid "])
def test_a_name_that_is_not_allowed_is_refused(make_app, name):
    with pytest.raises(Refused, match="does not name it"):
        make_app(**ALLOWED).define("event", {"name": name}).dispatch()


def test_a_refused_event_is_a_dead_letter_at_once_in_a_worker(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/queue.db"
    id = make_app(url, **ALLOWED).define("event", PAID).dispatch()
    strict = make_app(url)

    strict.worker(burst=True).run()

    assert strict.backend.jobs.find(id).reason == "forbidden"


def test_one_failing_listener_does_not_hide_the_others(make_app, outcome_of):
    app, seen = make_app(**ALLOWED), []

    @app.on("order.paid")
    def broken(data):
        raise ValueError("no stock")

    @app.on("order.paid")
    def worse(data):
        raise KeyError("id")

    app.on("order.paid")(seen.append)

    failure = outcome_of(app, "event", PAID).failures[-1]

    message = failure.message
    assert seen == [{"id": 7}]
    assert "2 of 3 listeners of event 'order.paid' failed" in message
    assert "no stock" in message
    assert "KeyError" in message
    assert "in broken" in failure.trace
    assert "in worse" in failure.trace


def test_an_event_that_nobody_listens_to_fails_rather_than_vanish(make_app, outcome_of):
    assert "has no listener in this worker" in outcome_of(make_app(**ALLOWED), "event", PAID).failures[-1].message


@pytest.mark.parametrize(
    "payload", [None, "order.paid", {}, {"data": 1}, {"name": 1}, {"name": "order.paid", "extra": 1}]
)
def test_a_payload_of_another_shape_is_refused(make_app, payload):
    with pytest.raises(ValueError, match="payload"):
        make_app(**ALLOWED).define("event", payload).dispatch()


def test_data_may_be_left_out(make_app, outcome_of):
    app, seen = make_app(**ALLOWED), []
    app.on("order.paid")(seen.append)

    outcome_of(app, "event", {"name": "order.paid"})

    assert seen == [None]


def test_a_listener_must_be_callable(make_app):
    with pytest.raises(InvalidHandler):
        make_app().on("order.paid")(None)


def test_the_caller_of_the_sync_backend_sees_what_failed():
    with Tenure("sync://", **ALLOWED) as app, pytest.raises(JobFailed, match="has no listener in this worker"):
        app.define("event", PAID).dispatch()


def test_a_handler_of_ones_own_takes_the_place_of_a_built_in_one(make_app, outcome_of):
    app = make_app()

    @app.job
    def event(name: str) -> str:
        return f"mine: {name}"

    assert outcome_of(app, "event", {"name": "x"}).output == "mine: x"


def test_a_generator_function_is_refused_as_a_listener(make_app):
    def generate(data):
        yield data

    with pytest.raises(InvalidHandler, match=r"of event .order\.paid., is a generator function"):
        make_app(**ALLOWED).on("order.paid")(generate)


def test_what_a_plain_listener_returns_is_awaited(make_app, outcome_of):
    app, seen = make_app(**ALLOWED), []

    async def tell(data):
        seen.append(data["id"])

    app.on("order.paid")(lambda data: tell(data))

    assert (outcome_of(app, "event", PAID).state, seen) == ("done", [7])


def test_a_listener_whose_code_did_not_run_has_failed(make_app, outcome_of):
    app = make_app(**ALLOWED)
    app.on("order.paid")(lambda data: map(print, data))

    record = outcome_of(app, "event", PAID)

    assert (record.state, "whose code has not run" in record.failures[-1].message) == ("dead", True)
