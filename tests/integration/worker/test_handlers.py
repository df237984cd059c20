"""What surrounds a handler: its context, its event loop and its hooks."""

import asyncio
from typing import ClassVar

import pytest

from tenure import Cancel, Context, current_context
from tenure.testing import run_due

pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


def test_context_is_given_and_found_anywhere(app):
    seen = {}

    def deep_inside():
        return current_context().id

    @app.job(queue="mail", meta={"tenant": "acme"})
    def look(context: Context, name: str):
        seen.update(given=context, found=current_context(), deep=deep_inside())

    id = look.using(name="nightly").enqueue(name="Ada")
    run_due(app)
    context = seen["given"]
    assert context is seen["found"]
    assert (context.id, seen["deep"], context.handler, context.queue, context.name) == (
        id,
        id,
        "look",
        "mail",
        "nightly",
    )
    assert (context.attempt, context.fence, context.meta, context.time_left) == (1, 1, {"tenant": "acme"}, None)
    with pytest.raises(LookupError):
        current_context()


def test_async_handlers_run_beside_sync_ones_and_share_a_loop(app):
    loops = set()

    @app.job
    async def ping(context: Context, host: str):
        await asyncio.sleep(0)
        loops.add(id(asyncio.get_running_loop()))
        return f"{host} from {current_context().id == context.id}"

    @app.job
    def plain():
        return "plain"

    ids = [ping.enqueue(host="a"), plain.enqueue(), ping.enqueue(host="b")]
    assert run_due(app) == {"acked": 3}
    assert [app.backend.jobs.find(id).output for id in ids] == ["a from True", "plain", "b from True"]
    assert len(loops) == 1


class Hooked:
    """A handler class that tells what was called; `veto` and `spoil` make its hooks fail."""

    calls: ClassVar[list] = []
    veto = spoil = False

    def before_run(self, context):
        self.calls.append("before")
        if self.veto:
            raise Cancel("not today")

    def handle(self, payload: dict) -> str:
        self.calls.append("handle")
        return payload["word"]

    def after_run(self, context, outcome):
        self.calls.append(f"after {outcome.kind}")
        if self.spoil:
            raise RuntimeError("a hook that fails")


def test_hooks_run_around_the_handler(app):
    calls = []
    app.register("hooked", type("Plain", (Hooked,), {"calls": calls}))
    id = app.define("hooked", {"word": "done"}).dispatch()
    assert run_due(app) == {"acked": 1}
    assert (calls, app.backend.jobs.find(id).output) == (["before", "handle", "after succeeded"], "done")


def test_before_run_may_veto(app):
    calls = []
    app.register("hooked", type("Vetoed", (Hooked,), {"calls": calls, "veto": True}))
    app.define("hooked", {"word": "done"}).dispatch()
    assert run_due(app) == {"cancelled": 1}
    assert calls == ["before", "after cancelled"]


def test_after_run_cannot_change_the_outcome(app):
    calls = []
    app.register("hooked", type("Spoilt", (Hooked,), {"calls": calls, "spoil": True}))
    id = app.define("hooked", {"word": "done"}).dispatch()
    assert run_due(app) == {"acked": 1}
    assert app.backend.jobs.find(id).state == "done"
