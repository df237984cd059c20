"""Callbacks: the signed message of a job carries the jobs that follow it, and the worker enqueues them at its end."""

import pytest

from tenure import Cancel, Context, Tenure
from tenure.clock import to_datetime
from tenure.errors import InvalidJob, InvalidPayload
from tenure.testing import run_due
from tenure.wire.signing import new_key

pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


@pytest.fixture
def shop(app, clock):
    return Shop(app, clock)


class Shop:
    """An app whose jobs tell what they were called with, in order."""

    def __init__(self, app, clock):
        self.app = app
        self.clock = clock
        self.told = []
        self.parents = []

        @app.job
        def tell(ctx: Context, word: str) -> str:
            self.told.append(word)
            self.parents.append(ctx.meta.get("parent"))
            return word

        @app.job
        def fail(word: str = "fail"):
            self.told.append(word)
            raise ValueError(word)

        @app.job
        def give_up():
            raise Cancel("no need")

        self.tell, self.fail, self.give_up = tell, fail, give_up

    @staticmethod
    def secret(app):
        @app.job
        def secret(): ...

        return secret

    def run(self):
        """Until nothing is ready any more."""
        while run_due(self.app):
            pass
        return self.told


def all_kinds(shop):
    build = shop.tell.build
    return {"then": build("then"), "on_failure": build("on_failure"), "finally_": build("finally")}


def test_a_success_is_followed_by_then_and_finally(shop):
    id = shop.tell.using(**all_kinds(shop)).enqueue("first")
    assert shop.run() == ["first", "then", "finally"]
    assert shop.parents[1:] == [{"id": id, "state": "done"}] * 2


def test_a_death_is_followed_by_on_failure_and_finally(shop):
    id = shop.fail.using(**all_kinds(shop)).enqueue()
    assert shop.run() == ["fail", "on_failure", "finally"]
    assert shop.parents == [{"id": id, "state": "dead"}] * 2


def test_a_retry_is_not_an_end(shop):
    shop.fail.using(max_retries=1, **all_kinds(shop)).enqueue()
    run_due(shop.app)
    assert shop.told == ["fail"]
    shop.clock.advance(10)
    assert shop.run() == ["fail", "fail", "on_failure", "finally"]


def test_a_cancelled_job_is_followed_by_finally_alone(shop):
    shop.give_up.using(**all_kinds(shop)).enqueue()
    assert shop.run() == ["finally"]


def test_an_expired_job_is_followed_by_finally_alone(shop, clock):
    soon = to_datetime(clock.now() + 1_000_000)
    shop.tell.using(expires_at=soon, **all_kinds(shop)).enqueue("first")
    clock.advance(2)
    assert shop.run() == ["finally"]


def test_a_chain_goes_on_while_its_jobs_succeed(shop):
    shop.tell.using(chain=[shop.tell.build("second"), shop.tell.build("third")]).enqueue("first")
    assert shop.run() == ["first", "second", "third"]


def test_a_chain_stops_at_the_first_job_that_dies(shop):
    fatal = shop.fail.using(on_failure=shop.tell.build("on_failure")).build()
    shop.tell.using(chain=[fatal, shop.tell.build("third")]).enqueue("first")
    assert shop.run() == ["first", "fail", "on_failure"]


def test_a_job_in_a_chain_brings_its_own_chain_first(shop):
    longer = shop.tell.using(chain=[shop.tell.build("inner")]).build("second")
    shop.tell.using(chain=[longer, shop.tell.build("third")]).enqueue("first")
    assert shop.run() == ["first", "second", "inner", "third"]


def test_followers_keep_their_options_and_count_their_delay_from_the_end(shop):
    later = shop.tell.using(queue="mail", priority=8, name="later", delay=60, meta={"tenant": "acme"}).build("then")
    shop.tell.using(then=later).enqueue("first")
    shop.clock.advance(100)
    run_due(shop.app)
    assert shop.app.backend.queues.counts()["mail"]["delayed"] == 1
    shop.clock.advance(59)
    assert shop.run() == ["first"]
    shop.clock.advance(1)
    assert shop.run() == ["first", "then"]


def test_a_job_that_ends_twice_is_followed_once(shop):
    id = shop.fail.using(on_failure=shop.tell.build("on_failure")).enqueue()
    assert shop.run() == ["fail", "on_failure"]
    assert shop.app.backend.dead_letters.replay([id]) == [id]
    assert shop.run() == ["fail", "on_failure", "fail"]


def test_the_builder_takes_followers_as_builders_or_jobs(shop):
    app = shop.app
    app.define("tell", {"word": "first"}).then(app.define("tell", {"word": "then"})).finally_(
        shop.tell.build("finally")
    ).chain(shop.tell.build("second")).dispatch()
    assert sorted(shop.run()) == ["finally", "first", "second", "then"]


def test_the_sync_backend_runs_followers_too(clock):
    with Tenure("sync://", clock=clock) as app:
        shop = Shop(app, clock)
        shop.tell.using(**all_kinds(shop), chain=[shop.tell.build("second")]).enqueue("first")
        assert shop.told == ["first", "then", "finally", "second"]


def test_followers_are_checked_when_the_first_job_is_enqueued(shop):
    bad = shop.tell.build("x").replace(payload={"word": 1})
    with pytest.raises(InvalidPayload):
        shop.tell.using(then=bad).enqueue("first")
    with pytest.raises(InvalidJob, match="takes jobs"):
        shop.tell.using(then="notify").enqueue("first")
    with pytest.raises(InvalidJob, match="must not have an id"):
        shop.tell.using(then=shop.tell.build("x").replace(id="mine")).enqueue("first")


def test_callbacks_of_callbacks_have_a_limit_and_chains_do_not(shop):
    job = shop.tell.build("last")
    for _ in range(8):
        job = job.replace(payload={"word": "before"}, then=job)
    shop.app.enqueue(job)
    with pytest.raises(InvalidJob, match="nested deeper than 8"):
        shop.app.enqueue(job.replace(then=job))
    shop.tell.using(chain=[shop.tell.build(f"{n}") for n in range(100)]).enqueue("first")
    assert shop.run()[-1] == "99"


def test_a_key_reaches_no_further_through_the_jobs_that_follow(tmp_path, clock):
    url, keys = f"sqlite:///{tmp_path}/jobs.db", [new_key("ours").dump(), new_key("theirs").dump()]
    with Tenure(url, clock=clock, keys=keys[::-1]) as producer:  # it signs with theirs, which our workers scope
        id = Shop(producer, clock).tell.using(then=Shop.secret(producer).build()).enqueue("first")
    scopes = {"theirs": {"handlers": ["tell"]}}
    with Tenure(url, clock=clock, keys=keys, scopes=scopes) as app:
        shop = Shop(app, clock)
        Shop.secret(app)
        assert run_due(app) == {"rejected": 1}
        assert (app.backend.jobs.find(id).reason, shop.told) == ("out_of_scope", [])
