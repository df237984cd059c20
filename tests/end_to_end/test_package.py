"""The package that a package index would get: it builds, contains what it needs, and its page renders."""

import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from readme_renderer import markdown

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source archive and the wheel, which is built from that archive."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        name = next(name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(files.read(name).decode())


def run(*arguments: str, **options: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=options or None
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    kinds = {".json", ".lua", ".py", ".sql", ".typed"}
    source = ROOT / "src"
    expected = {str(each.relative_to(source)) for each in source.rglob("*") if each.suffix in kinds}

    with zipfile.ZipFile(wheel) as files:
        missing = expected - set(files.namelist())

    assert not missing


def test_the_source_archive_contains_what_the_tests_need(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        top = {name.split("/")[1] for name in archive.getnames()}

    assert top >= {".ci", "Makefile", "README.md", "docs", "examples", "pyproject.toml", "requirements", "src", "tests"}


def test_the_installed_wheel_answers_on_the_command_line(wheel: Path, tmp_path: Path) -> None:
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path), str(wheel))

    answer = run("-P", "-m", "tenure", "--version", PYTHONPATH=str(tmp_path))

    assert "0.1.0" in answer


def test_the_page_on_an_index_renders_and_has_no_relative_links(metadata: Message) -> None:
    page = markdown.render(metadata.get_payload())

    assert page is not None
    assert 'href="docs/' not in page
    assert 'src="docs/' not in page
    assert "<table>" in page


def test_the_metadata_name_the_project_and_the_supported_versions_of_python(metadata: Message) -> None:
    addresses = {line.split(",")[0] for line in metadata.get_all("Project-URL", [])}
    classifiers = metadata.get_all("Classifier", [])

    assert addresses == {"Source", "Documentation", "Changelog", "Issues"}
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(classifiers)
