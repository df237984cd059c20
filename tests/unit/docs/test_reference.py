"""The reference pages name what exists, and say the same of it as the code."""

import inspect
import re
import typing
from pathlib import Path
from types import ModuleType

import pytest

import tenure
from tenure import errors, events
from tenure.definition.job import JobOptions
from tenure.metrics import counters
from tenure.worker.pipeline import REASONS
from tenure.worker.worker import Worker
from tests.support import settings_page

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
SIGNATURE = re.compile(r"^### `([\w.]+)(\(.*\))`$", re.MULTILINE)
PUBLIC = {name: getattr(tenure, name) for name in tenure.__all__} | {"Worker": Worker}

EVENTS = [cls.__name__ for cls in typing.get_args(events.Event)]


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """Table rows by their first cell, without back-quotes."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|").strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells:
            found[cells[0]] = cells[1:]
    return found


def classes_of(module: ModuleType) -> list[str]:
    return [name for name, cls in inspect.getmembers(module, inspect.isclass) if cls.__module__ == module.__name__]


def test_the_tables_of_settings_are_those_of_the_code() -> None:
    text = page("settings.md")
    assert text == settings_page.updated(text), "run `make reference`"


@pytest.mark.parametrize("name", settings_page.SEE)
def test_a_setting_that_refers_to_a_page_exists(name: str) -> None:
    assert name in settings_page.names()


@pytest.mark.parametrize("name", classes_of(errors))
def test_an_error_is_described(name: str) -> None:
    assert f"`{name}`" in page("errors.md")


@pytest.mark.parametrize("name", [*EVENTS, *events.Status, *counters._COUNTERS.values()])
def test_an_event_status_or_counter_is_described(name: str) -> None:
    assert f"`{name}`" in page("events-and-metrics.md")


def test_the_reasons_of_dead_letters_are_those_of_the_code() -> None:
    _, _, table = (
        (REFERENCE.parent / "how-to" / "dead-letters.md").read_text("utf-8").partition("## Dead-letter reasons")
    )
    assert rows(table).keys() - {"reason", "---"} == REASONS


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_described(name: str) -> None:
    assert re.search(rf"`{name}[.(`]", page("python-api.md"))


@pytest.mark.parametrize("name", JobOptions.__annotations__)
def test_a_job_option_is_described(name: str) -> None:
    assert f"`{name}`" in page("python-api.md")


@pytest.mark.parametrize(
    "cls", [tenure.Tenure, tenure.JobBuilder, tenure.ScheduleBuilder, tenure.JobFunction, tenure.Context, Worker]
)
def test_a_public_method_is_described(cls: type) -> None:
    text = page("python-api.md")
    methods = [name for name in vars(cls) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"`(?:{cls.__name__}\.)?{name}[(`]", text)] == []


@pytest.mark.parametrize(("name", "shown"), SIGNATURE.findall(page("python-api.md")))
def test_a_signature_is_the_one_in_the_code(name: str, shown: str) -> None:
    owner, _, attribute = name.partition(".")
    subject = getattr(PUBLIC[owner], attribute) if attribute else PUBLIC[owner]
    assert shown == bare_signature(subject)


def bare_signature(subject: typing.Any) -> str:
    """The signature without `self` and annotations."""
    signature = inspect.signature(subject)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"]
    return str(inspect.Signature(parameters))
