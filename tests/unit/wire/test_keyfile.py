"""The key file beside an embedded database is made once, atomically, and readable by its owner only."""

import stat
import subprocess
import sys

import pytest

from tenure.errors import SettingsError
from tenure.wire.signing import load_or_create_key, new_key

RACER = """
import sys, time
from pathlib import Path
from tenure.wire.signing import load_or_create_key
print("ready", flush=True)
sys.stdin.readline()
print(load_or_create_key(Path(sys.argv[1])).dump())
"""


def test_a_missing_key_is_made(tmp_path):
    made = load_or_create_key(tmp_path / "app.key")

    assert load_or_create_key(tmp_path / "app.key").dump() == made.dump()


def test_a_key_file_is_readable_by_its_owner_alone(tmp_path):
    load_or_create_key(tmp_path / "app.key")

    assert stat.S_IMODE((tmp_path / "app.key").stat().st_mode) == 0o600


def test_nothing_is_left_beside_a_new_key_file(tmp_path):
    load_or_create_key(tmp_path / "app.key")

    assert [path.name for path in tmp_path.iterdir()] == ["app.key"]


def test_an_existing_key_is_used(tmp_path):
    key = new_key("mine")
    (tmp_path / "app.key").write_text(f"{key.dump()}\n")

    assert load_or_create_key(tmp_path / "app.key").dump() == key.dump()


@pytest.mark.parametrize("content", ["", "garbage", "k1:short"])
def test_a_damaged_key_file_is_refused_and_kept(tmp_path, content):
    (tmp_path / "app.key").write_text(content)

    with pytest.raises(SettingsError):
        load_or_create_key(tmp_path / "app.key")

    assert (tmp_path / "app.key").read_text() == content


def test_a_key_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "app.key").write_bytes(b"\xff\xfe")

    with pytest.raises(SettingsError, match=r"the key file '.*app\.key' cannot be used"):
        load_or_create_key(tmp_path / "app.key")


def test_a_folder_that_does_not_exist_is_told(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot be used: .*No such file or directory"):
        load_or_create_key(tmp_path / "nowhere" / "app.key")


def test_processes_that_race_get_the_same_key(tmp_path):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path / "app.key")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for racer in racers:
        racer.stdout.readline()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()

    keys = {racer.communicate(timeout=30)[0] for racer in racers}

    assert len(keys) == 1
