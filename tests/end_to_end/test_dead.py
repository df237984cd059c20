"""`tenure dead`."""

import json
from secrets import token_hex

import pytest

TWO_DEAD = """
from shop import app, fail

print(fail.enqueue(text="one"))
app.worker(burst=True).run()
print(fail.using(queue="emails", name="letter", max_retries=0).enqueue())
app.worker("emails", burst=True).run()
"""
THREE_DEAD = """
from shop import add, app

for _ in range(3):
    print(add.enqueue(a=1))
app.worker(burst=True).run()
"""


@pytest.fixture
def two_dead(tenure):
    """Dead letters on two queues; the older one first."""
    return tuple(tenure.python("-c", TWO_DEAD).split())


@pytest.fixture
def mended(tenure):
    """Three dead letters whose cause is gone since."""
    shop = tenure.folder / "shop.py"
    code = shop.read_text()
    shop.write_text(code.replace("return a + b", "raise OSError"))
    ids = tenure.python("-c", THREE_DEAD).split()
    shop.write_text(code)
    return ids


def test_dead_letters_are_listed_with_what_happened(tenure, two_dead):
    letters = tenure.json("dead", "list")
    assert [letter["id"] for letter in letters] == list(two_dead)
    letter = letters[1]
    assert letter["enqueued_at"] < letter["died_at"]
    del letter["enqueued_at"], letter["died_at"]
    assert letter == {
        "id": two_dead[1], "queue": "emails", "job": "fail", "name": "letter", "reason": "retries_exhausted",
        "error": "ValueError: no luck", "runs": 1, "attempts": 1, "crashes": 0, "fence": 1,
    }  # fmt: skip


def test_a_list_can_be_of_one_queue(tenure, two_dead):
    assert [letter["id"] for letter in tenure.json("dead", "list", "--queue", "emails")] == [two_dead[1]]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--job", "fail"], [0, 1]),
        (["--job", "add"], []),
        (["--reason", "retries_exhausted"], [0, 1]),
        (["--reason", "timeout"], []),
        (["--text", "ONE"], [0]),
        (["--text", "LETTER"], [1]),
        (["--newer-than", "1h"], [0, 1]),
        (["--older-than", "90"], []),
        (["--older-than", "0", "--queue", "emails", "--text", "luck"], [1]),
    ],
)
def test_dead_letters_are_found_by_what_is_known_of_them(tenure, two_dead, options, found):
    assert [letter["id"] for letter in tenure.json("dead", "list", *options)] == [two_dead[n] for n in found]


def test_an_age_that_is_none_is_refused_in_one_line(tenure, two_dead):
    done = tenure("dead", "list", "--older-than", "yesterday")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--older-than 'yesterday' is not a duration" in done.stderr


def test_a_list_says_when_there_is_more(tenure, two_dead):
    done = tenure("dead", "list", "--limit", "1")
    assert done.stdout.count("\n") == 2
    assert done.stderr == "there are more than 1; --limit shows more\n"


def test_an_empty_list_says_so(tenure):
    tenure("db", "migrate")
    assert tenure("dead", "list").stdout == "no dead letters\n"
    assert tenure.json("dead", "list") == []


def test_dead_letters_are_listed_for_people(tenure, two_dead):
    printed = tenure("dead", "list").stdout
    assert printed.splitlines()[0].split("\t") == ["id", "queue", "job", "died_at", "reason", "error"]
    assert "ValueError: one" in printed


def test_square_brackets_in_an_error_are_not_markup(tenure):
    tenure.enqueue("fail", "--payload", '{"text": "[red]x[/nonsense]"}')
    tenure("work", "--burst")
    assert "[red]x[/nonsense]" in tenure("dead", "list", FORCE_COLOR="1", COLUMNS="200").stdout


def test_a_dead_letter_is_shown_with_its_payload(tenure, two_dead):
    letter = tenure.json("dead", "show", two_dead[0])
    assert (letter["state"], letter["payload"], letter["error"]) == ("dead", {"text": "one"}, "ValueError: one")
    assert two_dead[0] in tenure("dead", "show", two_dead[0]).stdout


def test_a_job_that_lives_is_not_shown_as_a_dead_letter(tenure):
    id = tenure.enqueue("fail")
    done = tenure("dead", "show", id)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is not a dead letter but ready" in done.stderr


def test_a_replayed_dead_letter_is_ready_with_fresh_counters(tenure, two_dead):
    assert tenure("dead", "replay", two_dead[0]).stdout == "replayed 1\n"
    job = tenure.json("jobs", "show", two_dead[0])
    assert (job["state"], job["attempts"], job["fence"]) == ("ready", 0, 1)
    assert tenure.state(two_dead[1]) == "dead"


def test_replaying_what_is_not_dead_exits_2_and_names_it(tenure, two_dead):
    done = tenure("dead", "replay", two_dead[0], "nonsense")
    assert (done.returncode, done.stdout) == (2, "replayed 1\n")
    assert done.stderr == "Error: not among the dead letters: nonsense\n"


def test_all_dead_letters_of_a_queue_are_replayed(tenure, two_dead):
    assert tenure("dead", "replay", "--all", "--queue", "emails").stdout == "replayed 1\n"
    assert [tenure.state(id) for id in two_dead] == ["dead", "ready"]


def test_more_dead_letters_than_a_page_are_all_replayed(tenure):
    (tenure.folder / "many.py").write_text("from shop import *\napp.enqueue_many(fail.build() for _ in range(1100))\n")
    tenure.python("many.py")
    tenure("work", "--burst", "--quiet")
    assert tenure("dead", "replay", "--all").stdout == "replayed 1100\n"
    assert tenure("dead", "replay", "--all").stdout == "replayed 0\n"


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(tenure, two_dead):
    assert tenure("dead", "replay", "--all", "--dry-run").stdout == "would replay 2: 2 retries_exhausted\n"
    assert tenure("dead", "purge", "--text", "one", "--dry-run").stdout == "would purge 1: 1 retries_exhausted\n"
    told = tenure("dead", "replay", two_dead[0], "nonsense", "--dry-run", "--json")
    assert json.loads(told.stdout) == {
        "would_replay": 1, "reasons": {"retries_exhausted": 1}, "missing": ["nonsense"]
    }  # fmt: skip
    assert (told.returncode, len(tenure.json("dead", "list"))) == (2, 2)


def test_dead_letters_that_are_described_are_replayed_and_the_others_stay(tenure, two_dead):
    assert tenure.json("dead", "replay", "--text", "letter") == {"replayed": 1, "missing": []}
    assert [tenure.state(id) for id in two_dead] == ["dead", "ready"]


def test_the_rest_is_replayed_once_the_first_have_succeeded(tenure, mended):
    tenure.start("work", "--quiet")
    told = tenure.json("dead", "replay", "--all", "--first", "2")
    assert told["replayed"] == 3
    assert [(each["id"], each["state"]) for each in told["first"]] == [(id, "done") for id in mended[:2]]


def test_nothing_more_is_replayed_when_one_of_the_first_fails(tenure, two_dead):
    tenure.start("work", "default", "emails", "--quiet")
    done = tenure("dead", "replay", "--all", "--first", "1")
    assert (done.returncode, done.stdout) == (1, "replayed 1\n")
    assert done.stderr.splitlines() == [
        f"{two_dead[0]} is dead (retries_exhausted: ValueError: one)",
        "stopped: 0 of the first 1 succeeded",
    ]
    assert tenure.json("jobs", "show", two_dead[1])["fence"] == 1


def test_the_first_are_not_waited_for_longer_than_was_said(tenure, two_dead):
    done = tenure("dead", "replay", "--all", "--first", "1", "--wait", "10ms")
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, f"{two_dead[0]} is ready (ValueError: one)")
    assert [tenure.state(id) for id in two_dead] == ["ready", "dead"]


def test_dead_letters_are_exported_as_lines_of_json_with_secrets_masked(tenure, two_dead):
    tenure.enqueue("echo", "--payload", '{"password": "hunter2"}', "--timeout", "0.01")
    (tenure.folder / "shop.py").write_text((tenure.folder / "shop.py").read_text().replace("return payload", "1 / 0"))
    tenure("work", "--burst")
    lines = [json.loads(line) for line in tenure("dead", "export").stdout.splitlines()]
    assert [line["payload"] for line in lines] == [{"text": "one"}, {}, {"password": "***"}]
    assert (lines[0]["reason"], lines[0]["attempts"], lines[0]["fence"]) == ("retries_exhausted", 1, 1)
    (failure,) = lines[0]["failures"]
    assert (failure["type"], failure["message"], failure["attempt"]) == ("ValueError", "one", 1)
    assert failure["trace"].startswith("Traceback")
    assert all(failure[name] for name in ("at", "place", "worker"))


def test_an_export_can_be_of_a_few(tenure, two_dead):
    one = tenure("dead", "export", two_dead[1], "nonsense")
    assert json.loads(one.stdout)["id"] == two_dead[1]
    assert (one.returncode, one.stderr) == (2, "Error: not among the dead letters: nonsense\n")
    assert json.loads(tenure("dead", "export", "--text", "one").stdout)["id"] == two_dead[0]


def test_purge_asks_and_keeps_everything_when_the_answer_is_no(tenure, two_dead):
    done = tenure("dead", "purge", "--all", answer="n\n")
    assert done.returncode == 1
    assert "Delete 2 dead letters for good?" in done.stdout
    assert len(tenure.json("dead", "list")) == 2


def test_purge_deletes_when_the_answer_is_yes(tenure, two_dead):
    done = tenure("dead", "purge", two_dead[0], answer="y\n")
    assert done.stdout.endswith("purged 1\n")
    assert [letter["id"] for letter in tenure.json("dead", "list")] == [two_dead[1]]


def test_purge_does_not_ask_when_forced(tenure, two_dead):
    assert tenure("dead", "purge", "--all", "--force").stdout == "purged 2\n"
    assert tenure.json("dead", "list") == []


@pytest.mark.parametrize("verb", ["replay", "purge"])
@pytest.mark.parametrize(
    "arguments", [[], ["an-id", "--all"], ["an-id", "--queue", "emails"], ["an-id", "--text", "x"]]
)
def test_a_verb_without_a_clear_target_is_refused_in_one_line(tenure, verb, arguments):
    done = tenure("dead", verb, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_backend_without_dead_letters_says_so(tenure):
    done = tenure("dead", "list", TENURE_URL="sync://")
    assert (done.returncode, done.stderr) == (2, "Error: the backend 'sync://' has no dead letters\n")


def test_a_dead_letter_of_a_broker_that_finds_no_single_job_is_found_all_the_same(tenure, beanstalk_url):
    url = f"{beanstalk_url}?ttr=120&prefix=test-{token_hex(6)}."
    tenure.environment |= {"TENURE_URL": url, "TENURE_ENVIRONMENT": "development"}
    ids = [tenure.enqueue("fail", "--payload", json.dumps({"text": text})) for text in ("one", "two")]
    tenure("work", "--burst")
    assert tenure.json("dead", "show", ids[1])["payload"] == {"text": "two"}
    assert tenure("dead", "replay", *ids, "--dry-run").stdout == "would replay 2: 2 retries_exhausted\n"
    assert json.loads(tenure("dead", "export", ids[0]).stdout)["id"] == ids[0]
    assert tenure("dead", "replay", "--text", "two").stdout == "replayed 1\n"
    refused = tenure("dead", "replay", "--all", "--first", "1")
    assert (refused.returncode, len(tenure.json("dead", "list"))) == (2, 1)
