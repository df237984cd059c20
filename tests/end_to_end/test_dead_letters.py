"""`tenure dead`."""

import pytest


@pytest.fixture
def two_dead(tenure):
    """Dead letters on two queues; the older one first."""
    first = tenure.enqueue("fail", "--payload", '{"text": "one"}')
    tenure("work", "--burst")
    second = tenure.enqueue("fail", "--queue", "emails", "--name", "letter", "--max-retries", "0")
    tenure("work", "emails", "--burst")
    return first, second


def test_dead_letters_are_listed_with_what_happened(tenure, two_dead):
    letters = tenure.json("dead", "list")
    assert [letter["id"] for letter in letters] == list(two_dead)
    letter = letters[1]
    assert letter["enqueued_at"] < letter["died_at"]
    del letter["enqueued_at"], letter["died_at"]
    assert letter == {
        "id": two_dead[1], "queue": "emails", "job": "fail", "name": "letter", "reason": "retries_exhausted",
        "error": "ValueError: no luck", "attempts": 1, "crashes": 0, "fence": 1,
    }  # fmt: skip


def test_a_list_can_be_of_one_queue(tenure, two_dead):
    assert [letter["id"] for letter in tenure.json("dead", "list", "--queue", "emails")] == [two_dead[1]]


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
@pytest.mark.parametrize("arguments", [[], ["an-id", "--all"], ["an-id", "--queue", "emails"]])
def test_a_verb_without_a_clear_target_is_refused_in_one_line(tenure, verb, arguments):
    done = tenure("dead", verb, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_backend_without_dead_letters_says_so(tenure):
    done = tenure("dead", "list", TENURE_URL="sync://")
    assert (done.returncode, done.stderr) == (2, "Error: the backend 'sync://' keeps no dead letters\n")
