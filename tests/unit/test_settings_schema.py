"""The JSON schema of tenure.toml is that of the code, and agrees with the loader."""

import json
import string
import tomllib

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from tenure import Tenure
from tenure.cli.commands.init import SETTINGS_TEMPLATE
from tenure.cli.main import cli
from tenure.errors import TenureError
from tenure.settings import load
from tests.support import settings_schema
from tests.support.docs_pages import PAGES, blocks

SCHEMA = json.loads(settings_schema.FILE.read_text("utf-8"))
VALIDATOR = Draft7Validator(SCHEMA)


def settings_of(text):
    """The settings in an example: a tenure.toml, or the table of a pyproject.toml."""
    table = tomllib.loads(text)
    return table["tool"].get("tenure") if "tool" in table else table


EXAMPLES = {
    block.place: found
    for page in PAGES
    for block in blocks(page)
    if block.language == "toml" and (found := settings_of(block.text)) is not None
}


def test_the_schema_is_that_of_the_code():
    assert settings_schema.FILE.read_text("utf-8") == settings_schema.text(), "run `make reference`"


def test_the_schema_is_a_schema_and_every_setting_has_a_text():
    Draft7Validator.check_schema(SCHEMA)
    assert [name for name, value in SCHEMA["properties"].items() if not value["description"]] == []


@pytest.mark.parametrize("place", EXAMPLES)
def test_an_example_of_the_documentation_is_accepted(place):
    assert [error.message for error in VALIDATOR.iter_errors(EXAMPLES[place])] == []


def test_the_settings_file_of_init_is_accepted_with_every_default_in_it():
    lines = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else ""
        for line in SETTINGS_TEMPLATE.split("\n")
    ]
    table = tomllib.loads("\n".join(lines))
    assert "retention" in table
    assert [error.message for error in VALIDATOR.iter_errors(table)] == []


WRONG = [
    'ulr = "sqlite:///a.db"',
    "queues = []",
    'queues = "default"',
    "lease = 0.5",
    "lease = true",
    "suspect_after = 0",
    "stop_grace = -1",
    "refresh_interval = 0",
    "max_bytes = 1000",
    "max_memory = 0",
    "recycle_after = 0",
    "breaker_threshold = 0",
    'log_format = "xml"',
    "log_keep = -1",
    "max_output = 65537",
    "default_timeout = 0",
    "verify = 3",
    "[retention]\ndone = -1",
    "[retention]\nfailed = 1",
    "[lanes.fast]\nqueue = ['a']",
    "[dashboard]\nsession = 9000",
    '[dashboard.users.ada]\npassword = "plain"',
    '[dashboard.tokens.ci]\nsha256 = "12"',
    '[notifications.ops]\non = ["dead"]',
    '[notifications.ops]\non = ["never"]\njob = "tell"',
    '[mail]\nsecurity = "ssl"',
    '[mail]\nsender = "nobody"',
    '[shell]\nallow = ["ls"]',
    '[http]\nschemes = ["ftp"]',
    '[http]\nallow = ["https://a.example"]',
    '[command.tidy]\nrun = "tidy"',
    '[command.tidy]\narguments = []',
    '[[command.tidy.arguments]]\nfixed = "a"\npattern = "b"\n[command.tidy]\nrun = "a:b"',
    '[backoff]\nstrategy = "linear"',
    "[backoff]\njitter = 2",
    '[rates]\nemails = "10 per minute"',
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_tenure_refuses_the_schema_refuses(text, tmp_path, monkeypatch):
    (tmp_path / "tenure.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TenureError, tomllib.TOMLDecodeError)):
        Tenure()
    assert not VALIDATOR.is_valid(tomllib.loads(text))


# What no schema can say: these texts are looked up, and these tables name entries of each other.
LOOKED_UP = {
    "timezone": st.sampled_from(["UTC", "Europe/Madrid"]),
    "networks": st.lists(st.sampled_from(["10.2.0.0/16"])),
    "subject": st.just("job $id"),
    "text": st.just("it was $handler"),
    "run": st.just(["-m", "tidy"]) | st.just("shop.tidy:main"),
}
ASCII = st.characters(codec="ascii", exclude_categories=["Cc"])
NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=6)


def values_of(schema):
    """Any value that a schema of ours accepts."""
    if "$ref" in schema:
        return values_of(SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]])
    if "allOf" in schema:
        return values_of(schema["allOf"][0])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "object":
        return tables_of(schema)
    if "anyOf" in schema:
        return st.one_of(*map(values_of, schema["anyOf"]))
    return PLAIN[schema["type"]](schema)


def tables_of(schema):
    if "properties" not in schema:
        return st.dictionaries(NAMES, values_of(schema["additionalProperties"]), max_size=2)
    members = {
        name: LOOKED_UP.get(name, values_of(value))
        for name, value in schema["properties"].items()
        if name not in UNRELATED
    }
    required = set(schema.get("required", ()))
    for choices in (schema.get("anyOf"), schema.get("oneOf")):
        required |= set(choices[0]["required"]) if choices else set()
    optional = {name: value for name, value in members.items() if name not in required}
    if "oneOf" in schema:
        optional = {}  # the others are of the other choices
    return st.fixed_dictionaries({name: members[name] for name in required}, optional=optional)


UNRELATED = ("arguments", "aliases", "user")  # of programs that are allowed; of queues; of a mail server with TLS
PLAIN = {
    "string": lambda each: (
        st.from_regex(each["pattern"], fullmatch=True, alphabet=ASCII) if "pattern" in each else NAMES
    ),
    "boolean": lambda each: st.booleans(),
    "integer": lambda each: st.integers(each.get("minimum", 0), each.get("maximum", 10**9)),
    "number": lambda each: st.floats(
        each.get("minimum", each.get("exclusiveMinimum", 0)),
        each.get("maximum", 1e9),
        exclude_min="exclusiveMinimum" in each,
        allow_subnormal=False,
    ),
    "array": lambda each: st.lists(
        values_of(each["items"]), min_size=each.get("minItems", 0), max_size=each.get("maxItems", 3)
    ),
}


ONE_SETTING = st.one_of(
    *(
        st.fixed_dictionaries({name: LOOKED_UP[name] if name in LOOKED_UP else values_of(value)})
        for name, value in SCHEMA["properties"].items()
        if name not in UNRELATED
    )
)


@given(ONE_SETTING)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_what_the_schema_accepts_tenure_loads(table):
    assert [error.message for error in VALIDATOR.iter_errors(table)] == []
    load(table)


def test_the_command_prints_the_schema_and_that_of_a_pyproject():
    printed = [CliRunner().invoke(cli, ["config", "schema", *more]).output for more in ([], ["--pyproject"])]
    assert json.loads(printed[0]) == SCHEMA
    pyproject = Draft7Validator(json.loads(printed[1]))
    assert pyproject.is_valid({"project": {"name": "shop"}, "tool": {"tenure": {"dashboard": {"session": 3}}}})
    assert not pyproject.is_valid({"tool": {"tenure": {"dashboard": {"session": 0}}}})
