"""Links between pages lead somewhere, and the paths that contributors are shown exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
PATH = re.compile(r"`((?:tests|src)/[\w/*.]+)`")
SOURCE_PATH = re.compile(r"`((?!tests/|src/)(?:[\w*]+/)*[\w*]+(?:/|/\w+|\.py|\.lua))`")
NAME = re.compile(r"`(\w+)`")
SOURCE = ROOT / "src" / "tenure"
FIND_YOUR_WAY = (ROOT / "docs" / "explanation" / "find-your-way.md").read_text("utf-8")
TASKS = [row.strip("| ").split(" | ") for row in re.findall(r"^\| (?!task|---).+", FIND_YOUR_WAY, re.MULTILINE)]
ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
TREE = re.search(r"^src/tenure/\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
DEFINITION = r"(?m)\b(def|class) {name}\b|^ *{name}\b *[:=]"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for path, anchor in LINK.findall(page.read_text("utf-8")):
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{path}#{anchor}" if anchor else path)
    assert broken == []


@pytest.mark.parametrize("path", sorted(set(PATH.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")))))
def test_a_path_that_contributing_names_exists(path: str) -> None:
    assert list(ROOT.glob(path))


@pytest.mark.parametrize(("task", "files", "names", "tests"), TASKS, ids=[task for task, *_ in TASKS])
def test_find_your_way_names_files_that_exist_and_define_the_names(
    task: str, files: str, names: str, tests: str
) -> None:
    found = [sorted(SOURCE.glob(path)) for path in SOURCE_PATH.findall(files)]
    assert found
    assert all(found)
    assert all(list(ROOT.glob(path)) for path in PATH.findall(tests))
    assert PATH.findall(tests)
    text = "".join(file.read_text("utf-8") for paths in found for file in paths if file.is_file())
    assert [name for name in NAME.findall(names) if not re.search(DEFINITION.format(name=name), text)] == []


@pytest.mark.parametrize("path", sorted(set(SOURCE_PATH.findall(ARCHITECTURE))))
def test_a_path_that_the_architecture_page_names_exists(path: str) -> None:
    assert list(SOURCE.glob(path))


def test_the_tree_of_the_architecture_page_is_that_of_the_source() -> None:
    assert TREE is not None
    shown = set()
    folder = ""
    for line in TREE[1].splitlines():
        if named := re.match(r" +((?:\w+/)+)  ", line):
            folder = named[1]
        else:
            shown |= {f"{folder}{name}" for name in line.split()}
    files = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if not path.name.startswith("__")}
    assert shown == files
