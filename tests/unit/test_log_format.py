"""Log lines as JSON."""

import json
import logging

import pytest

from tenure.cli.logs import JsonLineFormatter
from tenure.errors import SettingsError
from tenure.settings import load


def written(message, *arguments, exc_info=None, **extra):
    record = logging.getLogger("tenure.test").makeRecord(
        "tenure.test", logging.WARNING, __file__, 1, message, arguments, exc_info, extra=extra
    )
    line = JsonLineFormatter().format(record)
    assert "\n" not in line
    return json.loads(line)


def test_a_line_is_an_object_with_what_the_record_was_given():
    line = written("job %s is late", 7, job="7", queue="mail", seconds=1.5)
    assert (line["level"], line["logger"], line["message"]) == ("warning", "tenure.test", "job 7 is late")
    assert (line["job"], line["queue"], line["seconds"]) == ("7", "mail", 1.5)
    assert line["time"].endswith("Z")


def test_an_exception_is_told_with_its_trace():
    try:
        raise ValueError("no")
    except ValueError as error:
        line = written("oops", exc_info=(type(error), error, error.__traceback__))
    assert line["exception"] == "ValueError: no"
    assert "test_an_exception_is_told_with_its_trace" in line["trace"]


def test_secrets_are_masked_and_nothing_can_steer_a_terminal():
    line = written("password=swordfish \x1b[2J", token="abc", note="Bearer abcdefghijkl")
    assert "swordfish" not in json.dumps(line)
    assert (line["token"], line["note"]) == ("***", "***")


def test_what_json_does_not_know_is_shown_all_the_same():
    assert written("odd", thing=object)["thing"] == "<class 'object'>"


def test_a_format_that_is_not_known_is_refused():
    with pytest.raises(SettingsError, match="log_format must be 'pretty' or 'json'"):
        load({"log_format": "xml"})


@pytest.mark.parametrize("values", [{"max_output": -1}, {"max_output": 70_000}, {"log_keep": -1}])
def test_limits_of_logs_are_checked(values):
    with pytest.raises(SettingsError, match="must be"):
        load(values)
