"""mypy in strict mode and pyright accept every Python block of the documentation.

The blocks of a page are checked as one module, with the line numbers of the page. A block that is written into a file
is a module of its own; its name gets the name of the page, because pages use the same file names.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs_pages import PAGES, ROOT, Block, blocks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# A later block of a page may replace a function of an earlier one, as a reader would edit it.
# Not every library that examples use has types.
_PYRIGHT = {
    "typeCheckingMode": "standard",
    "pythonVersion": "3.11",
    "reportRedeclaration": False,
    "reportMissingImports": False,
    "reportMissingModuleSource": False,
    "reportAttributeAccessIssue": "error",
}
_MYPY_OPTIONS = [
    "--strict", "--no-error-summary", "--disable-error-code=no-redef", "--ignore-missing-imports",
    "--allow-untyped-decorators", "--untyped-calls-exclude=dramatiq",  # libraries that the migration guides leave
]  # fmt: skip


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the modules of all pages."""
    folder = tmp_path_factory.mktemp("pages")
    for page in PAGES:
        write_page(folder, page)
    return folder


def write_page(folder: Path, page: Path) -> None:
    name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
    found = [block for block in blocks(page) if block.language == "python"]
    written = {block.file.removesuffix(".py") for block in found if block.file and "/" not in block.file}
    session: list[Block] = []
    for number, block in enumerate(found):
        if block.file is None:
            session.append(block)
            continue
        earlier = any(other.file == block.file for other in found[number + 1 :])
        stem = f"{Path(block.file).stem}_{name}" + (f"_{number}" if earlier else "")
        (folder / f"{stem}.py").write_text(renamed(as_module([block]), written, name), "utf-8")
    if session:
        (folder / f"{name}.py").write_text(renamed(as_module(session), written, name), "utf-8")


def as_module(found: list[Block]) -> str:
    """The blocks in one text, each at the line that it has on its page."""
    lines: list[str] = []
    for block in found:
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def renamed(text: str, modules: set[str], page: str) -> str:
    """The text with the modules of its page imported by the names that they have here."""
    for module in modules:
        text = re.sub(rf"^(\s*)from {module} import", rf"\1from {module}_{page} import", text, flags=re.MULTILINE)
        text = re.sub(rf"^(\s*)import {module}$", rf"\1import {module}_{page} as {module}", text, flags=re.MULTILINE)
    return text


def test_mypy_in_strict_mode_accepts_every_block(modules: Path, request: pytest.FixtureRequest) -> None:
    cache = request.config.cache.mkdir("typing-blocks")  # processes must not share one
    command = [sys.executable, "-m", "mypy", *_MYPY_OPTIONS, "--cache-dir", str(cache), "."]

    done = subprocess.run(command, capture_output=True, text=True, cwd=modules, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_accepts_every_block(modules: Path) -> None:
    (modules / "pyrightconfig.json").write_text(json.dumps(_PYRIGHT), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--project",
        str(modules),
        "--outputjson",
    ]

    told = subprocess.run(command, capture_output=True, text=True, cwd=modules, check=False).stdout

    found = json.loads(told)["generalDiagnostics"]
    wrong = [each for each in found if each["severity"] == "error"]
    assert not wrong, "\n".join(
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}" for each in wrong
    )
