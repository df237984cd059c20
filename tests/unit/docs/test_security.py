"""Each statement of the security page about an attacker names a test, and the test exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
ATTACKERS = re.search(r"^## Attackers\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def statements() -> list[str]:
    assert ATTACKERS is not None
    rows = re.findall(r"^\| (.+) \|$", ATTACKERS[1], re.MULTILINE)
    return [row for row in rows if not row.startswith("---") and not row.endswith("| test")]


@pytest.mark.parametrize("row", statements())
def test_a_statement_about_an_attacker_names_tests_that_exist(row: str) -> None:
    statement, _, cell = row.rpartition(" | ")
    named = TEST.findall(cell)
    assert statement
    assert re.sub(TEST, "", cell).replace("<br>", "") == ""
    assert [(path, name) for path, name in named if f"def {name}(" not in text_of(path)] == []
    assert named


def test_each_kind_of_attacker_has_statements() -> None:
    assert ATTACKERS is not None
    kinds = ATTACKERS[1].split("\n### ")[1:]
    assert [kind.splitlines()[0] for kind in kinds if not TEST.search(kind)] == []
    assert len(kinds) >= 4


def text_of(path: str) -> str:
    return (ROOT / path).read_text("utf-8") if (ROOT / path).exists() else ""
