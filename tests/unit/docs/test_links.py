"""Links between pages lead somewhere, and the paths that contributors are shown exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
PATH = re.compile(r"`((?:tests|src)/[\w/*.]+)`")
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
