"""Commands on a broker with a store beside it know jobs, workers and statistics; without one they say what to set."""

from secrets import token_hex

import pytest

from tenure.wire.signing import new_key


@pytest.fixture
def broker(tenure, beanstalk_url):
    """The command line on beanstalkd, with a store in a file."""
    tenure.environment |= {
        "TENURE_URL": f"{beanstalk_url}?prefix=test-{token_hex(6)}.",
        "TENURE_STORE": f"sqlite:///{tenure.folder}/store.db",
        "TENURE_KEYS": new_key().dump(),
    }
    return tenure


def test_jobs_workers_and_the_last_day_are_known(broker, eventually):
    done, dead = broker.enqueue("add", "--payload", '{"a": 1}'), broker.enqueue("stumble", "--name", "tripper")
    holding = broker.enqueue("hold", "--queue", "other")
    assert broker("work", "--burst").returncode == 1
    shown = broker.json("jobs", "show", done)
    assert (shown["state"], shown["output"], shown["job"]) == ("done", "2", "add")
    shown = broker.json("jobs", "show", dead)
    assert (shown["state"], shown["name"], shown["payload"]) == ("dead", "tripper", {})  # the broker has the body
    assert [each["attempt"] for each in shown["failures"]] == [1, 2]
    assert {job["id"] for job in broker.json("jobs", "list")} == {done, dead}
    assert [job["id"] for job in broker.json("jobs", "list", "--state", "done")] == [done]
    missing = broker("jobs", "show", holding)
    assert (missing.returncode, "it may not have run yet" in missing.stderr) == (2, True)

    worker = broker.start("work", "other")
    eventually((broker.folder / "started").exists)
    (alive,) = eventually(lambda: broker.json("workers"))
    assert alive["queues"] == ["other"]
    (broker.folder / "released").touch()
    worker.terminate()
    worker.communicate(timeout=30)

    health = broker.json("health")
    assert {each["name"]: each["done"] for each in health["by_handler"]} == {"add": 1, "hold": 1, "stumble": 0}
    assert "all workers share a breaker" in next(each["text"] for each in health["facts"] if each["about"] == "outages")
    assert broker.json("purge", "--state", "done", "--force") == {"deleted": 2}
    assert broker.json("jobs", "list", "--state", "done") == []


@pytest.mark.parametrize("command", [("workers",), ("jobs", "show", "1"), ("jobs", "list")], ids=" ".join)
def test_without_a_store_commands_say_what_to_set(broker, command):
    del broker.environment["TENURE_STORE"]
    done = broker(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a place for them with the setting store" in done.stderr


def test_health_without_a_store_warns_that_one_is_needed(broker):
    del broker.environment["TENURE_STORE"]
    assert "WARNING: store: this backend cannot store" in broker("health").stdout
