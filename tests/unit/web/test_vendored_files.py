"""Vendored files: they are the published ones, and their licences are in the package."""

import hashlib
import tomllib
from pathlib import Path

import tenure.web

ROOT = Path(__file__).parents[3]
FOLDER = Path(tenure.web.__file__).parent / "static" / "vendor"
LIST = "VENDORED.toml"


def entries() -> list[dict[str, str]]:
    return tomllib.loads((FOLDER / LIST).read_text("utf-8"))["file"]


def test_every_vendored_file_is_listed_with_its_hash() -> None:
    listed = {entry["name"]: entry["sha256"] for entry in entries()}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir() if path.name != LIST}
    assert found == listed


def test_the_notice_names_every_vendored_file_and_its_version() -> None:
    notice = (ROOT / "NOTICE").read_text("utf-8")
    assert [entry["name"] for entry in entries() if entry["name"] not in notice] == []
    assert [entry["name"] for entry in entries() if f"{entry['project']} {entry['version']}" not in notice] == []
