"""What users expect of handlers in a worker with child processes: middleware, output, checked interfaces, records."""

import pytest

APP = """
from tenure import Context, Tenure

app = Tenure()


@app.middleware
def announce(ctx: Context, proceed):
    print(f"before {ctx.handler}")
    result = proceed()
    print(f"after {ctx.handler}")
    return f"{result}!"


@app.job
def greet(name: str) -> str:
    print("greeting")
    return f"hello {name}"


class Broken:
    def run(self): ...
"""


@pytest.fixture
def shop(tenure):
    (tenure.folder / "shop.py").write_text(APP)
    return tenure


@pytest.mark.parametrize("runner", ["process", "threads", "inline"])
def test_middleware_surrounds_a_handler_and_all_that_is_printed_is_kept(shop, runner):
    id = shop.enqueue("greet", "--payload", '{"name": "Ada"}')
    shop("work", "--burst", "--runner", runner)
    assert shop.json("jobs", "show", id)["output"] == "hello Ada!\nbefore greet\ngreeting\nafter greet\n"


def test_an_ended_job_is_kept_with_its_times_its_worker_and_its_payload(shop):
    id = shop.enqueue("greet", "--payload", '{"name": "Ada"}')
    shop("work", "--burst", "--runner", "inline")
    (listed,) = shop.json("jobs", "list", "--state", "done")
    shown = shop.json("jobs", "show", id)
    assert (listed["id"], shown["state"], shown["payload"]) == (id, "done", {"name": "Ada"})
    assert all(shown[name] for name in ("enqueued_at", "finished_at"))


def test_a_class_without_the_interface_of_a_handler_is_refused_where_it_is_registered(shop):
    with (shop.folder / "shop.py").open("a") as code:
        code.write('app.register("broken", Broken)\n')
    refused = shop("work", "--burst")
    assert refused.returncode == 2
    assert "handler class 'Broken' for key 'broken' needs a method handle(self, ...)" in refused.stderr


def test_a_mistyped_handler_is_refused_with_a_suggestion(shop):
    refused = shop("enqueue", "gret")
    assert refused.returncode == 2
    assert "no handler is registered under 'gret' (registered: greet); did you mean 'greet'?" in refused.stderr


def test_signatures_are_not_checked_if_that_is_switched_off(shop):
    """Two keys with the same name: a message that was signed with another secret."""
    keys = [shop("key", "new", "--kid", "same").stdout.strip() for _ in range(2)]
    shop.environment["TENURE_KEYS"] = keys[0]
    forged, trusted = (shop.enqueue("greet", "--payload", '{"name": "Eve"}') for _ in range(2))

    assert shop("work", "--once", "--runner", "inline", TENURE_KEYS=keys[1]).returncode == 1
    assert shop.json("jobs", "show", forged)["reason"] == "bad_signature"

    off = {"TENURE_KEYS": keys[1], "TENURE_VERIFY": "false"}
    assert shop("work", "--burst", "--runner", "inline", **off).returncode == 0
    assert shop.state(trusted) == "done"
