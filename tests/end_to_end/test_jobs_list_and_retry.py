"""`tenure jobs list` and `tenure jobs retry`."""

import pytest


@pytest.fixture
def shop(tenure):
    """One job done, one dead, one delayed in another queue, one ready."""
    tenure.enqueue("add", "--payload", '{"a": 1}', "--name", "sum")
    tenure.enqueue("fail", "--payload", '{"text": "out of paper"}', "--tag", "billing")
    tenure("work", "--burst")
    tenure.enqueue("add", "--payload", '{"a": 2}', "--queue", "mail", "--delay", "1h")
    tenure.enqueue("add", "--payload", '{"a": 3}', "--name", "next", "--tag", "billing", "--tag", "customer-17")
    return tenure


def listed(shop, *options):
    return [(job["state"], job["job"], job["name"]) for job in shop.json("jobs", "list", *options)]


def test_all_jobs_are_listed_by_state(shop):
    assert listed(shop) == [
        ("ready", "add", "next"),
        ("delayed", "add", None),
        ("done", "add", "sum"),
        ("dead", "fail", None),
    ]


@pytest.mark.parametrize(
    ("options", "states"),
    [
        (["--state", "done", "--state", "dead"], ["done", "dead"]),
        (["--queue", "mail"], ["delayed"]),
        (["--job", "fail"], ["dead"]),
        (["--name", "sum"], ["done"]),
        (["--text", "OUT OF"], ["dead"]),
        (["--newer-than", "1h"], ["ready", "delayed", "done", "dead"]),
        (["--older-than", "1h"], []),
        (["--tag", "billing"], ["ready", "dead"]),
        (["--tag", "billing", "--tag", "customer-17"], ["ready"]),
        (["--tag", "billing", "--state", "dead"], ["dead"]),
        (["--tag", "billing", "--job", "add"], ["ready"]),
        (["--tag", "bill"], []),
        (["--state", "dead", "--queue", "mail"], []),
    ],
)
def test_jobs_are_found_by_what_is_known_of_them(shop, options, states):
    assert [state for state, _, _ in listed(shop, *options)] == states


def test_people_see_columns_and_are_told_that_there_is_more(shop):
    done = shop("jobs", "list", "--limit", "2")
    header, *rows = done.stdout.splitlines()
    assert header.split("\t")[:4] == ["id", "state", "queue", "job"]
    assert len(rows) == 2
    assert "there may be more" in done.stderr
    assert shop("jobs", "list", "--queue", "nowhere").stdout == "no such jobs\n"


def test_the_tags_of_a_job_are_shown(shop):
    first, second = shop.json("jobs", "list", "--tag", "billing")
    assert (first["tags"], second["tags"], list(first)[-1]) == (["billing", "customer-17"], ["billing"], "tags")
    assert [job["tags"] for job in shop.json("jobs", "list", "--state", "done")] == [[]]
    details = shop.json("jobs", "show", first["id"])
    assert (details["tags"], list(details)[-1]) == (["billing", "customer-17"], "tags")
    assert "billing, customer-17" in shop("jobs", "show", first["id"]).stdout
    assert "billing, customer-17" in shop("jobs", "list").stdout
    limited = shop("jobs", "list", "--tag", "billing", "--limit", "1")
    assert (len(limited.stdout.splitlines()), "there may be more" in limited.stderr) == (2, True)


def test_a_tag_that_no_job_can_have_is_refused(shop):
    refused = shop("enqueue", "add", "--payload", '{"a": 1}', "--tag", "a,b")
    assert (refused.returncode, "'a,b' cannot be a tag" in refused.stderr) == (2, True)


def test_a_dead_letter_is_ready_again_and_a_job_that_is_done_makes_a_new_one(shop):
    dead, done, ready = (shop.json("jobs", "list", "--state", state)[0]["id"] for state in ("dead", "done", "ready"))
    tried = shop("jobs", "retry", dead, done, ready)
    first, second = tried.stdout.splitlines()
    assert (tried.returncode, first) == (2, f"{dead} is ready again")
    assert second.startswith(f"{done} runs again as ")
    assert f"job '{ready}' is ready; only ended jobs and jobs in backoff can be retried" in tried.stderr
    assert (shop.state(dead), shop.state(second.split()[-1])) == ("ready", "ready")


def test_the_json_of_a_retry_names_new_jobs_only_where_there_are_some(shop):
    dead, done = (shop.json("jobs", "list", "--state", state)[0]["id"] for state in ("dead", "done"))
    assert shop.json("jobs", "retry", dead) == {"retried": [dead]}
    retried = shop.json("jobs", "retry", done)
    assert (retried["retried"], shop.state(retried["new_ids"][done])) == ([done], "ready")


def test_a_job_without_its_payload_is_not_retried(shop):
    (done,) = shop.json("jobs", "list", "--state", "done")
    shop("jobs", "forget", done["id"])
    tried = shop("jobs", "retry", done["id"])
    assert tried.returncode == 2
    assert f"job '{done['id']}' is done, and its payload is no longer kept: enqueue it anew" in tried.stderr


def test_a_backend_that_cannot_list_jobs_says_so(tenure):
    done = tenure("jobs", "list", TENURE_URL="sync://")
    assert (done.returncode, done.stdout) == (2, "")
    assert "this backend keeps no lists of jobs; name a place for them with the setting store" in done.stderr
