"""Arguments of commands: only values that their rules allow, and only unambiguous rules."""

import msgspec
import pytest

from tenure.builtin.authorisation import MAX_ARGUMENT_LENGTH, MAX_ARGUMENTS, check_arguments, check_texts
from tenure.errors import Refused
from tenure.permissions import Argument, Command, Shell

FIXED = Argument(fixed="-resize")
SIZE = Argument(one_of=("100x100", "-auto"))
FILE = Argument(pattern=r"[a-z]+\.png")
COUNT = Argument(integer=(1, 100))
FREE = Argument(pattern=r".*", dash=True)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (FIXED, "-resize"),
        (SIZE, "100x100"),
        (SIZE, "-auto"),
        (FILE, "a.png"),
        (COUNT, "1"),
        (COUNT, "100"),
        (Argument(integer=(-5, 5)), "-5"),
        (FREE, "-anything"),
        (FREE, ""),
    ],
)
def test_an_argument_that_its_place_allows_passes(rule, text):
    check_arguments("'x'", [text], [rule])


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (FIXED, "-resiz"),
        (FIXED, "-resize "),
        (SIZE, "101x100"),
        (FILE, "a.png\n"),
        (FILE, "../a.png"),
        (FILE, "-a.png"),
        (FILE, "a.png;rm"),
        (COUNT, "0"),
        (COUNT, "101"),
        (COUNT, "1e1"),
        (COUNT, "+1"),
        (COUNT, "\u0661"),  # an Arabic digit, which int() would read
        (COUNT, "9" * 30),
        (Argument(pattern=r".*"), "--upload-file=/etc/passwd"),
    ],
)
def test_an_argument_that_its_place_does_not_allow_is_refused_by_its_number(rule, text):
    with pytest.raises(Refused, match="argument 1 of 'x'"):
        check_arguments("'x'", [text], [rule])


@pytest.mark.parametrize("given", [[], ["a.png"], ["a.png", "b.png", "c.png"]])
def test_the_number_of_arguments_must_fit(given):
    with pytest.raises(Refused, match="its rules take 2 to 2"):
        check_arguments("'x'", given, [FILE, FILE])


def test_the_last_places_may_be_left_out():
    check_arguments("'x'", ["a.png"], [FILE, Argument(integer=(1, 2), optional=True)])


def test_the_very_last_place_may_repeat():
    check_arguments("'x'", ["7", "a.png", "b.png", "c.png"], [COUNT, Argument(pattern=r"[a-z]\.png", repeat=True)])


def test_no_rules_allow_no_arguments():
    with pytest.raises(Refused, match="take 0 to 0"):
        check_arguments("'x'", ["a"], [])


@pytest.mark.parametrize("given", [["a\0b"], ["a" * (MAX_ARGUMENT_LENGTH + 1)], ["a"] * (MAX_ARGUMENTS + 1)])
def test_what_no_program_could_be_given_is_refused(given):
    with pytest.raises(Refused):
        check_texts("'x'", given)


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"fixed": "a", "pattern": "b"},
        {"pattern": "("},
        {"one_of": []},
        {"fixed": "a", "unknown": 1},
    ],
)
def test_a_rule_must_say_exactly_one_thing(rule):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(rule, Argument)


@pytest.mark.parametrize(
    "rules",
    [
        [{"fixed": "a", "optional": True}, {"fixed": "b"}],
        [{"fixed": "a", "repeat": True}, {"fixed": "b"}],
    ],
)
def test_rules_that_leave_a_doubt_are_refused(rules):
    with pytest.raises(msgspec.ValidationError, match="only the last"):
        msgspec.convert({"run": "shop:main", "arguments": rules}, Command)


@pytest.mark.parametrize("run", ["shop", "shop:", "shop.cli:main()", "a b:c", [], ["-m"], ["-m", "a;b"], [""]])
def test_a_command_that_names_no_callable_is_refused(run):
    with pytest.raises(msgspec.ValidationError, match="run must be"):
        msgspec.convert({"run": run}, Command)


@pytest.mark.parametrize("run", ["shop.cli:main", "shop:app.report", ["-m", "shop.report"], ["django-admin", "check"]])
def test_a_command_names_a_callable_a_module_or_a_script(run):
    assert msgspec.convert({"run": run}, Command).arguments is None


@pytest.mark.parametrize("shell", [{"allow": ["ls"]}, {"allow": ["./ls"]}, {"arguments": {"/bin/ls": []}}])
def test_programs_are_named_by_absolute_path_and_rules_by_program(shell):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(shell, Shell)
