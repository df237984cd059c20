"""The example of the README on a server: one variable and one command are all that it needs."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
IN_CODE = 'Tenure("sqlite:///jobs.db")'


@pytest.fixture
def example():
    text = README.read_text("utf-8").partition("## Quick start")[2]
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


@pytest.fixture(params=["redis_url", "postgres_url"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize(("variable", "given"), [("TENURE_URL_OVERRIDE", IN_CODE), ("TENURE_URL", "Tenure()")])
def test_the_example_runs_on_a_server_after_one_command(tenure, server, example, variable, given):
    (tenure.folder / "shop.py").write_text(example.replace("Tenure()", given))
    tenure.without("TENURE_URL").environment[variable] = server

    refused = tenure("db", "migrate") if server.startswith("postgres") else tenure("jobs", "list")
    assert (refused.returncode, "run `tenure key new --save`" in refused.stderr) == (2, True), refused.stderr
    assert tenure("key", "new", "--save").returncode == 0
    tenure("db", "migrate")

    tenure.python("shop.py")
    states = [job["state"] for job in tenure.json("jobs", "list")]
    assert sorted(states) == ["delayed", "done"]
    tenure.enqueue("send_welcome", "--payload", '{"user_id": 44}')
    assert "1 done" in tenure("work", "--burst").stdout  # child processes find the key too


def test_a_saved_key_is_not_overwritten_and_another_can_be_added_after_it(tenure):
    first = tenure("key", "new", "--save", "--kid", "first")
    file = tenure.folder / "tenure.keys"
    assert first.stdout == f"wrote the key 'first' to {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600

    again = tenure("key", "new", "--save")
    assert (again.returncode, "run: tenure key new >> tenure.keys" in again.stderr) == (2, True)
    assert file.read_text().startswith("first:")


def test_the_saved_keys_sign_and_verify_in_their_order_on_a_server(tenure, redis_url):
    tenure("key", "new", "--save", "--kid", "first")
    with (tenure.folder / "tenure.keys").open("a") as file:
        file.write(tenure("key", "new", "--kid", "second").stdout)

    found = tenure.json("key", "list", TENURE_URL=redis_url)
    assert [(key["kid"], key["use"]) for key in found] == [("first", "signs"), ("second", "verifies")]


def test_a_saved_key_does_not_replace_the_key_beside_a_sqlite_database(tenure):
    tenure("db", "migrate")
    (before,) = tenure.json("key", "list")
    tenure("key", "new", "--save", "--kid", "server")

    assert tenure.json("key", "list") == [before]


def test_a_saved_key_that_others_can_read_is_refused(tenure, redis_url):
    tenure("key", "new", "--save")
    (tenure.folder / "tenure.keys").chmod(0o644)

    refused = tenure("jobs", "list", TENURE_URL=redis_url)
    assert (refused.returncode, "other users can read it; run chmod 600" in refused.stderr) == (2, True)
